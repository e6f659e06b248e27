-- Counts jobs.
--
-- Answer: delayed, leased, dead, refused calls, lost leases; then for each lane with ready jobs its
--         name, how many, and for how many ms the oldest has been there.
tick()
flush()
local counters = call('HMGET', KEYS[1], 'r', 'l')
local answer = {
  call('ZCARD', P .. 'd'), call('ZCARD', P .. 'l'), call('HLEN', P .. 'x'),
  tonumber(counters[1]) or 0, tonumber(counters[2]) or 0,
}

-- The lowest number among the jobs of a stream that are still to be had there.
local function first_of(name)
  local groups = redis.pcall('XINFO', 'GROUPS', name)
  if not groups or groups.err or not groups[1] then return nil end
  local from
  for i = 1, #groups[1], 2 do
    if groups[1][i] == 'last-delivered-id' then from = groups[1][i + 1] end
  end
  while true do
    local entries = call('XRANGE', name, '(' .. from, '+', 'COUNT', 100)
    if #entries == 0 then return nil end
    for i = 1, #entries do
      local rec = call('HGET', P .. 'j', entries[i][2][1])
      local r = rec and parse(rec)
      from = entries[i][1]
      if r and r.st == 'w' and id_of(r.seq) == from then return r.seq end
    end
  end
end

local lanes = {}
local flat = call('HGETALL', P .. 'q')
for i = 1, #flat, 2 do
  local lane, prio = string.match(flat[i], '^(%d+):(%d+)$')
  local found = lanes[lane]
  if not found then
    found = { 0, us }
    lanes[lane] = found
  end
  found[1] = found[1] + tonumber(flat[i + 1])
  local back = call('ZRANGE', backs(lane, prio), 0, 0, 'WITHSCORES')
  local oldest = math.min(tonumber(back[2]) or us, first_of(stream(lane, prio)) or us)
  found[2] = math.min(found[2], oldest)
end
for lane, found in pairs(lanes) do
  answer[#answer + 1] = call('HGET', P .. 'n', '#' .. lane) or ''
  answer[#answer + 1] = found[1]
  answer[#answer + 1] = format('%d', math.max(now - floor(found[2] / 1000), 0))
end
return answer
