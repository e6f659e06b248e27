-- Adds jobs, or joins those that are there.
--
-- ARGV[4]     most jobs in the queue
-- ARGV[5..7]  client, slot, number of this call of the slot: an older call than the last is stale
-- ARGV[8]     submissions; then for each: jobs, 1 if they must all fit or else none is taken,
--             segments; for each segment: lane, priority, run, earliest time (ms, 0: now), jobs;
--             for each job: key, text
-- Answer: for each submission a text of 8 bytes per job, `Q` (queued or joined) or `R` (its result
--         is stored) and its number; or a list of the new jobs and those present if it is full.
-- Invariant: a repeated call changes nothing that the first did: equal jobs are joined, and a
--            client waits for a job of a run once.
local jobs_max, client = tonumber(ARGV[4]), tonumber(ARGV[5])
local memo = P .. 'm:' .. ARGV[5] .. ':' .. ARGV[6]
local last = call('GET', memo)
if last and tonumber(last) > tonumber(ARGV[7]) then return { 'old' } end
if last ~= ARGV[7] then call('SET', memo, ARGV[7], 'PX', 120000) end
tick()

-- First pass: what is there?
local keys, at = {}, 9
for _ = 1, tonumber(ARGV[8]) do
  local segments = tonumber(ARGV[at + 2])
  at = at + 3
  for _ = 1, segments do
    local n = tonumber(ARGV[at + 4])
    at = at + 5
    for i = 0, n - 1 do keys[#keys + 1] = ARGV[at + 2 * i] end
    at = at + 2 * n
  end
end
load(keys)
local stored = {}
for from = 1, #keys, 4000 do
  local names = {}
  for i = from, math.min(from + 3999, #keys) do names[#names + 1] = P .. 'r:' .. keys[i] end
  if call('EXISTS', unpack(names)) > 0 then
    for i = 1, #names do
      if call('EXISTS', names[i]) == 1 then stored[keys[from + i - 1]] = true end
    end
  end
end
local present = call('HLEN', P .. 'j')
local has_dead = call('EXISTS', P .. 'y') == 1
local seq = take('s', #keys)

local runs = {}
local function run_number(name)
  local n = runs[name]
  if n then return n end
  n = tonumber(call('HGET', P .. 'u', 'n:' .. name))
  if not n then
    n = call('HINCRBY', KEYS[1], 'n', 1)
    call('HSET', P .. 'u', 'n:' .. name, n, 'i:' .. n, name)
  end
  runs[name] = n
  return n
end

local function lane_number(name)
  local n = tonumber(call('HGET', P .. 'n', name))
  if not n then
    n = call('HINCRBY', KEYS[1], 'h', 1)
    call('HSET', P .. 'n', name, n, '#' .. n, name)
  end
  return n
end

local function is_waiting(r, waiter)
  for i = 1, #r.ws, 11 do
    if sub(r.ws, i, i + 10) == waiter then return true end
  end
  return false
end

-- Applies the urgency of a second submission.
local function hasten(key, r, prio, till)
  if prio > r.pr then
    if r.st == 'w' or r.st == 'r' then
      unplace(key, r)
      r.pr = prio
      make_ready(key, r)
    else
      r.pr = prio
      touch(key)
    end
  end
  if r.st == 'd' and till < r.till then
    call('ZREM', P .. 'd', key)
    if till <= now then make_ready(key, r) else delay(key, r, till, 'd') end
  end
end

local answers = {}
at = 9
for s = 1, tonumber(ARGV[8]) do
  local must_fit, segments = ARGV[at + 1] == '1', tonumber(ARGV[at + 2])
  at = at + 3
  local new = 0
  if must_fit then
    local look = at
    for _ = 1, segments do
      local n = tonumber(ARGV[look + 4])
      look = look + 5
      for i = 0, n - 1 do
        local key = ARGV[look + 2 * i]
        if not R[key] and not stored[key] then new = new + 1 end
      end
      look = look + 2 * n
    end
  end
  if must_fit and new > 0 and new > jobs_max - present then
    answers[s] = { new, present }
    for _ = 1, segments do at = at + 5 + 2 * tonumber(ARGV[at + 4]) end
  else
    local told_back = {}
    for _ = 1, segments do
      local prio, till = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 3])
      local n = tonumber(ARGV[at + 4])
      local lane, run = lane_number(ARGV[at]), run_number(ARGV[at + 2])
      local waiter = pack('>I7I4', client, run)
      local name = stream(lane, prio)
      local fresh, made, has_stream = 0, 0, false
      -- What the records of new jobs have before and after their numbers.
      local before, after = pack('>c1BBI2', 'w', prio, prio, lane), '\0\0\0\0\0' .. waiter
      at = at + 5
      for i = 0, n - 1 do
        local key = ARGV[at + 2 * i]
        local r = R[key]
        if stored[key] then
          told_back[#told_back + 1] = pack('>c1I7', 'R', 0)
        elseif r then
          if not is_waiting(r, waiter) then
            r.ws = r.ws .. waiter
            add(waits, run, 1)
            touch(key)
          end
          hasten(key, r, prio, till)
          told_back[#told_back + 1] = pack('>c1I7', 'Q', r.seq)
        else
          if has_dead and call('ZREM', P .. 'y', key) == 1 then call('HDEL', P .. 'x', key) end
          if not has_stream then
            has_stream = true
            if call('EXISTS', name) == 0 then
              call('XGROUP', 'CREATE', name, 'g', '0', 'MKSTREAM')
            end
          end
          call('XADD', name, id_of(seq), key, ARGV[at + 2 * i + 1])
          local number = pack('>I7', seq)
          local rec = before .. number .. after
          seq = seq + 1
          made = made + 1
          if till > now then
            r = parse(rec)
            R[key] = r
            delay(key, r, till, 'd')
          else
            fresh = fresh + 1
            raw[key], R[key] = rec, nil
            sets[#sets + 1] = key
            sets[#sets + 1] = rec
          end
          told_back[#told_back + 1] = 'Q'
          told_back[#told_back + 1] = number
        end
      end
      present = present + made
      add(waits, run, made)
      at = at + 2 * n
      if fresh > 0 then
        add(ready, lane .. ':' .. prio, fresh)
        rung = true
      end
      -- A run that got nothing keeps no number.
      if not waits[run] or waits[run] == 0 then
        if call('HEXISTS', P .. 'u', 'c:' .. run) == 0 then
          call('HDEL', P .. 'u', 'n:' .. ARGV[at - 2 * n - 3], 'i:' .. run)
          runs[ARGV[at - 2 * n - 3]] = nil
        end
      end
    end
    answers[s] = table.concat(told_back)
  end
end
flush()
return answers
