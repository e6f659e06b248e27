-- Tells who waits for jobs.
--
-- ARGV[4..]  keys
-- Answer: for each a list: the lane, the number and the names of the runs; empty if there is no such job.
tick()
flush()
local answers = {}
for i = 4, #ARGV do
  local rec = call('HGET', P .. 'j', ARGV[i])
  local found = {}
  if rec then
    local r, seen = parse(rec), {}
    found[1] = call('HGET', P .. 'n', '#' .. r.la) or ''
    found[2] = format('%d', r.seq)
    for at = 1, #r.ws, 11 do
      local run = unpack_s('>I4', r.ws, at + 7)
      local name = not seen[run] and call('HGET', P .. 'u', 'i:' .. run)
      seen[run] = true
      if name then found[#found + 1] = name end
    end
  end
  answers[#answers + 1] = found
end
return answers
