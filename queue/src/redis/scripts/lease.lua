-- Hands out jobs: the highest priority first, then the lowest number.
--
-- ARGV[4..6]  client, slot, number of this call of the slot
-- ARGV[7..9]  worker, most jobs, lease time in ms
-- ARGV[10..]  lanes
-- Answer: `g`, end of the leases, fence of the first (each next has one more), then in one text
--         for each job its key, lane (its place among ARGV), deliveries and retries, then the text
--         of each (empty: not held any more).
--         Or `e`, ms until there may be something (-1: unknown), last ring of the bell. Or `old`.
-- Invariant: a worker holds one job at a time that the next loss would bury.
-- Invariant: a repeated call hands out what the first did; a fence is granted once.
local client, worker, max, ttl = tonumber(ARGV[4]), ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local memo_key = P .. 'm:' .. ARGV[4] .. ':' .. ARGV[5]
local number = tonumber(ARGV[6])
local lanes, lane_at = {}, {}
for i = 10, #ARGV do lanes[#lanes + 1] = ARGV[i] end
local numbers = call('HMGET', P .. 'n', unpack(lanes))
for i = 1, #lanes do
  if numbers[i] then lane_at[tonumber(numbers[i])] = i end
end

local function head(r) return pack('>I2I2I2', lane_at[r.la] or 0, r.de, r.re) end
local heads = {}

tick()
local memo = call('GET', memo_key)
if memo then
  local last, first = unpack_s('>I7I7', memo)
  if last > number then return { 'old' } end
  if last == number then
    -- The answer was lost: the same again, of what is still held.
    local keys, answer = {}, { 'g', format('%d', now + ttl), format('%d', first), '' }
    for at = 15, #memo, 32 do keys[#keys + 1] = sub(memo, at, at + 31) end
    load(keys)
    for i = 1, #keys do
      local r = R[keys[i]]
      local is_ours = r and r.st == 'l' and r.fence == first + i - 1
      heads[2 * i - 1] = keys[i]
      heads[2 * i] = is_ours and head(r) or '\0\0\0\0\0\0'
      answer[4 + i] = is_ours and text_of(r) or ''
      if is_ours then answer[2] = format('%d', r.exp) end
    end
    answer[4] = table.concat(heads)
    flush()
    return answer
  end
end

-- Makes counts of ready jobs visible that the tick has changed.
local counts = {}
local flat = call('HGETALL', P .. 'q')
for i = 1, #flat, 2 do counts[flat[i]] = tonumber(flat[i + 1]) end
for field, n in pairs(ready) do counts[field] = (counts[field] or 0) + n end

local got = {}

-- A job that the next loss makes a dead letter: it may be the one that brings workers down. A worker
-- holds one such job at a time, so that its death is charged to that one and not to others like it.
local losses_max = tonumber(ARGV[2])
local suspect_key = P .. 'k:' .. worker
local function is_suspect(r) return r.lo > 0 and r.lo >= losses_max - 1 end
local holds_suspect
local function takes_suspect()
  if holds_suspect == nil then
    local held = call('GET', suspect_key)
    if held then load({ held }) end
    local r = held and R[held]
    -- Whoever ended it did not say so here.
    holds_suspect = r and r.st == 'l' and r.worker == worker or false
  end
  if holds_suspect then return false end
  holds_suspect = true
  return true
end

-- Finds up to `want` jobs among those that came back; returns how many it looked at.
local function come_back(lane, prio, want, list)
  local seen, found = 0, 0
  while found < want and seen < 2000 do
    local keys = call('ZRANGE', backs(lane, prio), seen, seen + want - 1)
    seen = seen + #keys
    load(keys)
    for i = 1, #keys do
      local r = R[keys[i]]
      if r and found < want and (not is_suspect(r) or takes_suspect()) then
        found = found + 1
        list[#list + 1] = { keys[i], false, r.seq, r = r }
      end
    end
    if #keys < want then break end
  end
  return seen
end

-- Reads up to `want` jobs from a stream that are still to be had there.
local function read(lane, prio, want, list)
  local name = stream(lane, prio)
  local found = 0
  while found < want do
    local asked = want - found
    local answer = redis.pcall('XREADGROUP', 'GROUP', 'g', 'w', 'COUNT', asked, 'NOACK', 'STREAMS', name, '>')
    if not answer or answer.err then return end
    local entries = answer[1][2]
    local keys = {}
    for i = 1, #entries do keys[i] = entries[i][2][1] end
    load(keys)
    for i = 1, #entries do
      local id, key = entries[i][1], keys[i]
      local rec = untouched(key)
      local job
      if rec then
        if byte(rec) == 119 then
          local seq, re, de = unpack_s('>I7I2xI2', rec, 6)
          if id == format('%d-0', seq) then
            job = { key, entries[i][2][2], seq, rec, re, de, from = name, lane = lane, pr = prio }
          end
        end
      else
        local r = R[key]
        if r and r.st == 'w' and id == id_of(r.seq) then
          job = { key, entries[i][2][2], r.seq, r = r, from = name }
        end
      end
      if job then
        found = found + 1
        list[#list + 1] = job
      end
    end
    if #entries < asked then return end
  end
end

for prio = 7, 0, -1 do
  local want = max - #got
  if want <= 0 then break end
  local list, sources = {}, 0
  for lane, _ in pairs(lane_at) do
    local there = counts[lane .. ':' .. prio] or 0
    if there > 0 then
      local seen = come_back(lane, prio, want, list)
      if seen > 0 then sources = sources + 1 end
      if there > seen then
        sources = sources + 1
        read(lane, prio, want, list)
      end
    end
  end
  if sources > 1 then table.sort(list, function(a, b) return a[3] < b[3] end) end
  local unread = {}
  for i = 1, #list do
    local job = list[i]
    if i <= want then
      got[#got + 1] = job
    elseif job.from and not unread[job.from] then
      -- The first that stays: the stream is wound back to just before it.
      unread[job.from] = true
      call('XGROUP', 'SETID', job.from, 'g', id_of(job[3] - 1))
    end
  end
end

if #got == 0 then
  flush()
  local next_at = -1
  for _, name in ipairs({ 'd', 'l' }) do
    local first = call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')
    if first[2] then
      local due = tonumber(first[2])
      if name == 'l' then due = math.max(due, grace_till) end
      local wait = math.max(due - now, 1)
      if next_at < 0 or wait < next_at then next_at = wait end
    end
  end
  local bell = call('XREVRANGE', P .. 'a', '+', '-', 'COUNT', 1)
  return { 'e', format('%d', next_at), bell[1] and bell[1][1] or '0-0' }
end

local first = take('f', #got)
local till = format('%d', now + ttl)
local answer, leases, keys = { 'g', till, format('%d', first), '' }, {}, {}
-- What the records of leased jobs have after their fences.
local tail = pack('>I6I7Bc0', now + ttl, client, #worker, worker)
local taken = {}
for i = 1, #got do
  local job = got[i]
  local key, rec = job[1], job[4]
  if rec then
    -- Still as it came: the record is patched.
    local de = job[6] < 65535 and job[6] + 1 or 65535
    sets[#sets + 1] = key
    sets[#sets + 1] = pack('>c1c14I2I7', 'l', sub(rec, 2, 15), de, first + i - 1) .. tail .. sub(rec, 18)
    taken[job.lane] = taken[job.lane] or {}
    taken[job.lane][job.pr] = (taken[job.lane][job.pr] or 0) + 1
    heads[2 * i] = pack('>I2I2I2', lane_at[job.lane], de, job[5])
    answer[4 + i] = job[2]
  else
    local r = job.r
    unplace(key, r)
    -- Why it was put off has been told: nothing but retries and losses is kept until the job ends.
    if r.re + r.lo == 0 then call('DEL', P .. 'e:' .. key) end
    r.de = math.min(r.de + 1, 65535)
    answer[4 + i] = job[2] or text_of(r)
    r.st, r.fence, r.exp, r.wc, r.worker = 'l', first + i - 1, now + ttl, client, worker
    if is_suspect(r) then call('SET', suspect_key, key, 'PX', 86400000) end
    touch(key)
    heads[2 * i] = head(r)
  end
  heads[2 * i - 1] = key
  leases[2 * i - 1] = till
  leases[2 * i] = key
  keys[i] = key
end
for lane, prios in pairs(taken) do
  for prio, n in pairs(prios) do add(ready, lane .. ':' .. prio, -n) end
end
answer[4] = table.concat(heads)
in_chunks('ZADD', P .. 'l', leases, 4000)
call('SET', memo_key, pack('>I7I7', number, first) .. table.concat(keys), 'PX', math.max(ttl, 60000))
flush()
return answer
