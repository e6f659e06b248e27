-- Counts which jobs would be new.
--
-- ARGV[4..]  keys
-- Answer: new jobs, jobs that are there.
local new = 0
for from = 4, #ARGV, 4000 do
  local keys, names = {}, {}
  for i = from, math.min(from + 3999, #ARGV) do keys[#keys + 1] = ARGV[i] end
  local found = call('HMGET', P .. 'j', unpack(keys))
  for i = 1, #keys do
    if not found[i] then names[#names + 1] = P .. 'r:' .. keys[i] end
  end
  new = new + #names
  if #names > 0 then new = new - call('EXISTS', unpack(names)) end
end
return { new, call('HLEN', P .. 'j') }
