-- Counts a part of the jobs by run and lane, those for which none of some runs waits.
--
-- ARGV[4]    where to go on (0: from the start)
-- ARGV[5..]  the runs whose jobs are left out
-- Answer: where to go on (0: done); then for each run and lane their names, how many jobs wait, how
--         many are leased, and the lowest number of those that wait.
-- Invariant: a job is counted once, for the run that asked first.
tick()
flush()
local is_out, name_of = {}, {}
for i = 5, #ARGV do is_out[ARGV[i]] = true end
local is_any = false
local flat = call('HGETALL', P .. 'u')
for i = 1, #flat, 2 do
  local number = string.match(flat[i], '^i:(%d+)$')
  if number then
    name_of[tonumber(number)] = flat[i + 1]
    is_any = is_any or not is_out[flat[i + 1]]
  end
end
if not is_any then return { '0' } end

-- The run that is counted, if any.
local function run_of(ws)
  local first
  for at = 1, #ws, 11 do
    local name = name_of[unpack_s('>I4', ws, at + 7)]
    if name and is_out[name] then return nil end
    first = first or name
  end
  return first
end

local part = call('HSCAN', P .. 'j', ARGV[4], 'COUNT', 1000)
local found, order_of = {}, {}
for i = 2, #part[2], 2 do
  local r = parse(part[2][i])
  local run = run_of(r.ws)
  if run then
    local id = r.la .. ':' .. run
    local count = found[id]
    if not count then
      count = { run = run, la = r.la, waiting = 0, leased = 0, oldest = us }
      found[id] = count
      order_of[#order_of + 1] = id
    end
    if r.st == 'l' then
      count.leased = count.leased + 1
    else
      count.waiting = count.waiting + 1
      count.oldest = math.min(count.oldest, r.seq)
    end
  end
end
local answer = { part[1] }
for i = 1, #order_of do
  local count = found[order_of[i]]
  answer[#answer + 1] = count.run
  answer[#answer + 1] = call('HGET', P .. 'n', '#' .. count.la) or ''
  answer[#answer + 1] = count.waiting
  answer[#answer + 1] = count.leased
  answer[#answer + 1] = format('%d', count.oldest)
end
return answer
