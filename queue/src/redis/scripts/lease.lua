-- Hands out jobs: the highest priority first, then the lowest number.
--
-- ARGV[4..6]  client, slot, number of this call of the slot
-- ARGV[7..9]  worker, most jobs, lease time in ms
-- ARGV[10..]  lanes
-- Answer: `g`, end of the leases, fence of the first (each next has one more), then for each job
--         its key, its text, and packed: lane (its place among ARGV), deliveries, retries.
--         Or `e`, ms until there may be something (-1: unknown), last ring of the bell. Or `old`.
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

tick()
local memo = call('GET', memo_key)
if memo then
  local last, first = unpack_s('>I7I7', memo)
  if last > number then return { 'old' } end
  if last == number then
    -- The answer was lost: the same again, of what is still held.
    local keys, answer = {}, { 'g', format('%d', now + ttl), format('%d', first) }
    for at = 15, #memo, 32 do keys[#keys + 1] = sub(memo, at, at + 31) end
    load(keys)
    for i = 1, #keys do
      local r = R[keys[i]]
      local is_held = r and r.st == 'l' and r.fence == first + i - 1
      answer[#answer + 1] = is_held and keys[i] or ''
      answer[#answer + 1] = is_held and text_of(r) or ''
      answer[#answer + 1] = is_held and head(r) or ''
      if is_held then answer[2] = format('%d', r.exp) end
    end
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
    for i = 1, #entries do keys[i] = entries[i][2][2] end
    load(keys)
    for i = 1, #entries do
      local r = R[keys[i]]
      local seq = tonumber(sub(entries[i][1], 1, -3))
      if r and r.st == 'w' and r.seq == seq then
        found = found + 1
        list[#list + 1] = { key = keys[i], r = r, seq = seq, text = entries[i][2][4], from = name }
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
      local back = call('ZRANGE', backs(lane, prio), 0, want - 1)
      if #back > 0 then
        sources = sources + 1
        load(back)
        for i = 1, #back do
          local r = R[back[i]]
          if r then list[#list + 1] = { key = back[i], r = r, seq = r.seq } end
        end
      end
      if there > #back then
        sources = sources + 1
        read(lane, prio, want, list)
      end
    end
  end
  if sources > 1 then table.sort(list, function(a, b) return a.seq < b.seq end) end
  local unread = {}
  for i = 1, #list do
    local job = list[i]
    if i <= want then
      got[#got + 1] = job
    elseif job.from and not unread[job.from] then
      -- The first that stays: the stream is wound back to just before it.
      unread[job.from] = true
      call('XGROUP', 'SETID', job.from, 'g', id_of(job.seq - 1))
    end
  end
end

if #got == 0 then
  flush()
  local next_at = -1
  for _, name in ipairs({ 'd', 'l' }) do
    local first = call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')
    if first[2] then
      local wait = math.max(tonumber(first[2]) - now, 1)
      if next_at < 0 or wait < next_at then next_at = wait end
    end
  end
  local bell = call('XREVRANGE', P .. 'a', '+', '-', 'COUNT', 1)
  return { 'e', format('%d', next_at), bell[1] and bell[1][1] or '0-0' }
end

local first = take('f', #got)
local till = format('%d', now + ttl)
local answer, leases, keys = { 'g', till, format('%d', first) }, {}, {}
for i = 1, #got do
  local job = got[i]
  local key, r = job.key, job.r
  local text = job.text or text_of(r)
  unplace(key, r)
  r.st, r.fence, r.exp, r.wc, r.worker = 'l', first + i - 1, now + ttl, client, worker
  r.de = math.min(r.de + 1, 65535)
  touch(key)
  leases[#leases + 1] = till
  leases[#leases + 1] = key
  keys[i] = key
  answer[#answer + 1] = key
  answer[#answer + 1] = text
  answer[#answer + 1] = head(r)
end
in_chunks('ZADD', P .. 'l', leases, 4000)
call('SET', memo_key, pack('>I7I7', number, first) .. table.concat(keys), 'PX', math.max(ttl, 60000))
flush()
return answer
