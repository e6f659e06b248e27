-- What all scripts of the queue share; put in front of each.
--
-- KEYS[1]  the counters, `…:{q}:c`. Every other key is made from its beginning and so lies in the
--          same slot of a cluster. docs/redis.md lists them all.
-- ARGV[1]  the time in ms, 0 for the server's
-- ARGV[2]  leases a job may lose before it is dead
-- ARGV[3]  dead letters kept
--
-- A job's record is packed: state (byte 1), priority (2), priority of the stream that holds its
-- text (3), lane (4), number (6), retries (13), losses (15), deliveries (16); then (18) for a leased
-- one fence, end (25), client (31) and worker (38), for a delayed one the time; then who waits:
-- client and run, 11 bytes each.
--   w  in its stream, not delivered yet      r  ready again, in the sorted set of its priority
--   d  delayed by whoever asked              b  delayed by a worker
--   l  leased
--
-- Invariants: a job is in exactly one state and in the index of that state; its text lies in its
-- stream until it ends; numbers and fences only grow, also when the last second was lost, because
-- they are never behind the clock's microseconds.
--
-- What a job costs is mostly what is made here for it. So what most jobs go through (new, handed
-- out from the stream, completed) patches the packed record in place; whatever else happens takes
-- it apart.
local P = string.sub(KEYS[1], 1, -2)
local call, pack, unpack_s = redis.call, struct.pack, struct.unpack
local format, sub, byte, floor = string.format, string.sub, string.byte, math.floor

local now, us
if ARGV[1] == '0' then
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
  now = floor(us / 1000)
else
  now = tonumber(ARGV[1])
  us = now * 1000
end

-- Takes `n` numbers of a counter and returns the first.
local function take(counter, n)
  local first = math.max((tonumber(call('HGET', KEYS[1], counter)) or 0) + 1, us)
  call('HSET', KEYS[1], counter, format('%d', first + n - 1))
  return first
end

local function id_of(seq) return format('%d-0', seq) end
local function stream(lane, prio) return P .. 'w:' .. lane .. ':' .. prio end
local function backs(lane, prio) return P .. 'b:' .. lane .. ':' .. prio end

local function parse(rec)
  local r = {}
  local at
  r.st, r.pr, r.op, r.la, r.seq, r.re, r.lo, r.de, at = unpack_s('>c1BBI2I7I2BI2', rec)
  if r.st == 'l' then
    r.fence, r.exp, r.wc, r.worker, at = unpack_s('>I7I6I7Bc0', rec, at)
  elseif r.st == 'd' or r.st == 'b' then
    r.till, at = unpack_s('>I6', rec, at)
  end
  r.ws = sub(rec, at)
  return r
end

local function write(r)
  local head = pack('>c1BBI2I7I2BI2', r.st, r.pr, r.op, r.la, r.seq, r.re, r.lo, r.de)
  if r.st == 'l' then
    return head .. pack('>I7I6I7Bc0', r.fence, r.exp, r.wc, #r.worker, r.worker) .. r.ws
  elseif r.st == 'd' or r.st == 'b' then
    return head .. pack('>I6', r.till) .. r.ws
  end
  return head .. r.ws
end

-- Records as they were read (false: none); those taken apart (false: gone), made when they are
-- asked for; and those to be written at the end.
local raw, R, dirty, order = {}, {}, {}, {}
setmetatable(R, {
  __index = function(all, key)
    local rec = raw[key]
    if not rec then return rec end
    local r = parse(rec)
    all[key] = r
    return r
  end,
})
local function load(keys)
  local missing, n = {}, 0
  for i = 1, #keys do
    local key = keys[i]
    if raw[key] == nil then
      n = n + 1
      missing[n] = key
      raw[key] = false
    end
  end
  for from = 1, n, 4000 do
    local to = math.min(from + 3999, n)
    local found = call('HMGET', P .. 'j', unpack(missing, from, to))
    for i = 1, to - from + 1 do raw[missing[from + i - 1]] = found[i] end
  end
end

-- Returns a record that nothing has happened to in this call.
local function untouched(key)
  return rawget(R, key) == nil and raw[key]
end

local function touch(key)
  if not dirty[key] then
    dirty[key] = true
    order[#order + 1] = key
  end
end

-- Changes that are gathered and written once.
local ready, waits, texts, unlease, told, tolds = {}, {}, {}, {}, {}, {}
-- Records patched in place (key, record), and keys of those that are gone: written before those
-- that were taken apart.
local sets, dels = {}, {}
local rung = false
local function add(t, field, n) t[field] = (t[field] or 0) + n end
local function is_ready(r, n) add(ready, r.la .. ':' .. r.pr, n) end

local function mail_of(client)
  local mail = told[client]
  if not mail then
    mail = { results = {} }
    told[client] = mail
    tolds[#tolds + 1] = client
  end
  return mail
end

-- Says something to a client: kind and bytes. Results are told together.
local function tell(client, kind, bytes)
  local mail = mail_of(client)
  if kind == 'r' then
    mail.results[#mail.results + 1] = bytes
  else
    mail[#mail + 1] = kind
    mail[#mail + 1] = bytes
  end
end

-- Says something to everyone who waits, each client once.
local function tell_all(r, kind, bytes)
  local seen
  for at = 1, #r.ws, 11 do
    local who = sub(r.ws, at, at + 6)
    if at == 1 or not seen[who] then
      seen = seen or {}
      seen[who] = true
      tell(unpack_s('>I7', who), kind, bytes)
    end
  end
end

local function drop_waits(r)
  for at = 1, #r.ws, 11 do add(waits, unpack_s('>I4', r.ws, at + 7), -1) end
end

-- Takes a job out of the index of its state.
local function unplace(key, r)
  if r.st == 'w' then
    is_ready(r, -1)
  elseif r.st == 'r' then
    is_ready(r, -1)
    call('ZREM', backs(r.la, r.pr), key)
  elseif r.st == 'l' then
    unlease[#unlease + 1] = key
  else
    call('ZREM', P .. 'd', key)
  end
end

-- The numbers of texts to be removed from a stream.
local function gone_from(name)
  local ids = texts[name]
  if not ids then
    ids = {}
    texts[name] = ids
  end
  return ids
end

-- Removes a job that is in no index any more.
local function forget(key, r)
  local ids = gone_from(stream(r.la, r.op))
  ids[#ids + 1] = id_of(r.seq)
  if r.re + r.lo > 0 or r.st ~= 'w' then call('DEL', P .. 'e:' .. key) end
  drop_waits(r)
  R[key] = false
  touch(key)
end

-- Puts a job that is in no index among the ready ones, if anybody still wants it.
local function make_ready(key, r)
  if r.ws == '' then return forget(key, r) end
  r.st = 'r'
  call('ZADD', backs(r.la, r.pr), format('%d', r.seq), key)
  is_ready(r, 1)
  rung = true
  touch(key)
end

local function delay(key, r, till, state)
  r.st, r.till = state, till
  call('ZADD', P .. 'd', format('%d', till), key)
  -- Whoever sleeps until the next such time has to look again.
  rung = true
  touch(key)
end

local function note(key, worker, what)
  call('RPUSH', P .. 'e:' .. key, pack('>I6Bc0I4c0', now, #worker, worker, #what, what))
  call('LTRIM', P .. 'e:' .. key, -16, -1)
end

local function text_of(r)
  local id = id_of(r.seq)
  local found = call('XRANGE', stream(r.la, r.op), id, id)
  return found[1] and found[1][2][2] or ''
end

-- Makes a dead letter of a job that is in no index, if anybody still wants it.
local function bury(key, r, cause, detail)
  if r.ws == '' then return forget(key, r) end
  local runs, seen = {}, {}
  for at = 1, #r.ws, 11 do
    local run = unpack_s('>I4', r.ws, at + 7)
    if not seen[run] then
      seen[run] = true
      runs[#runs + 1] = call('HGET', P .. 'u', 'i:' .. run) or ''
    end
  end
  table.sort(runs)
  local evidence = call('LRANGE', P .. 'e:' .. key, 0, -1)
  local parts = { pack('>I2I2B', r.de, r.re, r.lo) }
  local function put(s) parts[#parts + 1] = pack('>I4c0', #s, s) end
  put(text_of(r))
  put(cause)
  put(detail)
  parts[#parts + 1] = pack('>I4', #runs)
  for i = 1, #runs do put(runs[i]) end
  parts[#parts + 1] = pack('>I4', #evidence)
  for i = 1, #evidence do put(evidence[i]) end
  local letter = table.concat(parts)
  call('HSET', P .. 'x', key, letter)
  call('ZADD', P .. 'y', format('%d', take('y', 1)), key)
  local over = call('ZCARD', P .. 'y') - tonumber(ARGV[3])
  if over > 0 then
    local old = call('ZRANGE', P .. 'y', 0, over - 1)
    call('HDEL', P .. 'x', unpack(old))
    call('ZREM', P .. 'y', unpack(old))
  end
  tell_all(r, 'f', key .. pack('>I7', r.seq) .. letter)
  if #evidence > 0 then call('DEL', P .. 'e:' .. key) end
  forget(key, r)
end

-- When nobody called for AWAY ms, the server itself was away (workers call more often than that), and
-- leases ran out that nobody could renew: for GRACE ms their holders may still renew and end them.
-- Then none such time begins for APART ms, so that a rarely used queue takes leases back, too.
local AWAY, GRACE, APART = 2000, 5000, 30000
local grace_till = 0
local function look_at_gap()
  -- A clock that is set from outside jumps.
  if ARGV[1] ~= '0' then return end
  local seen = call('HMGET', KEYS[1], 't', 'g')
  local last, till = tonumber(seen[1]) or 0, tonumber(seen[2]) or 0
  if last > 0 and now - last > AWAY and (now > till + APART or till > now + GRACE) then
    till = now + GRACE
    call('HSET', KEYS[1], 't', format('%d', now), 'g', format('%d', till))
  elseif now - last >= 500 or now < last then
    call('HSET', KEYS[1], 't', format('%d', now))
  end
  if till > now and till <= now + GRACE then grace_till = till end
end

-- Whether a lease counts still.
local function is_held(r, fence)
  return r and r.st == 'l' and r.fence == fence and (r.exp > now or grace_till > 0)
end

-- Lets time pass: jobs that are due become ready, leases that ran out are taken back.
local function tick()
  look_at_gap()
  local due = call('ZRANGEBYSCORE', P .. 'd', '-inf', now, 'LIMIT', 0, 500)
  if #due > 0 then
    load(due)
    call('ZREM', P .. 'd', unpack(due))
    for i = 1, #due do
      if R[due[i]] then make_ready(due[i], R[due[i]]) end
    end
  end
  if grace_till > 0 then return end
  local lost = call('ZRANGEBYSCORE', P .. 'l', '-inf', now, 'LIMIT', 0, 500)
  if #lost > 0 then
    load(lost)
    call('ZREM', P .. 'l', unpack(lost))
    local losses = 0
    for i = 1, #lost do
      local key, r = lost[i], R[lost[i]]
      if r then
        losses = losses + 1
        r.lo = math.min(r.lo + 1, 255)
        note(key, r.worker, 'the lease ran out')
        if r.lo < tonumber(ARGV[2]) then
          make_ready(key, r)
        else
          bury(key, r, r.lo .. ' workers lost it: each held it until its lease ran out', '')
        end
      end
    end
    call('HINCRBY', KEYS[1], 'l', losses)
  end
end

local function in_chunks(command, key, list, size)
  for from = 1, #list, size do
    call(command, key, unpack(list, from, math.min(from + size - 1, #list)))
  end
end

-- Writes what was gathered. Every script ends with it.
local function flush()
  for i = 1, #order do
    local key = order[i]
    local r = R[key]
    if r then
      sets[#sets + 1] = key
      sets[#sets + 1] = write(r)
    else
      dels[#dels + 1] = key
    end
  end
  in_chunks('HSET', P .. 'j', sets, 4000)
  in_chunks('HDEL', P .. 'j', dels, 4000)
  in_chunks('ZREM', P .. 'l', unlease, 4000)
  for name, ids in pairs(texts) do
    in_chunks('XDEL', name, ids, 4000)
    if call('XLEN', name) == 0 then call('DEL', name) end
  end
  for field, n in pairs(ready) do
    if n ~= 0 and call('HINCRBY', P .. 'q', field, n) <= 0 then call('HDEL', P .. 'q', field) end
  end
  for run, n in pairs(waits) do
    if n ~= 0 and call('HINCRBY', P .. 'u', 'c:' .. run, n) <= 0 then
      local name = call('HGET', P .. 'u', 'i:' .. run)
      call('HDEL', P .. 'u', 'c:' .. run, 'i:' .. run, 'n:' .. (name or ''))
    end
  end
  for i = 1, #tolds do
    local name = P .. 'i:' .. format('%d', tolds[i])
    local mail = told[tolds[i]]
    if #mail.results > 0 then
      mail[#mail + 1] = 'r'
      mail[#mail + 1] = table.concat(mail.results)
    end
    for from = 1, #mail, 4000 do
      local to = math.min(from + 3999, #mail)
      call('XADD', name, 'MAXLEN', '~', 1000, '*', unpack(mail, from, to))
    end
    call('PEXPIRE', name, 600000, 'NX')
  end
  if rung then call('XADD', P .. 'a', 'MAXLEN', 1, '*', 'b', '') end
end
