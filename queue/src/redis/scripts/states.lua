-- Tells where jobs are.
--
-- ARGV[4..]  keys
-- Answer: for each a list: `U`; `W`, number, losses; `D`, until, last cause or empty; `L`, worker,
--         fence, end; `F`, dead letter.
tick()
local keys = {}
for i = 4, #ARGV do keys[#keys + 1] = ARGV[i] end
load(keys)
local answers = {}
for i = 1, #keys do
  local key, r = keys[i], R[keys[i]]
  if not r then
    local letter = call('HGET', P .. 'x', key)
    answers[i] = letter and { 'F', letter } or { 'U' }
  elseif r.st == 'l' then
    answers[i] = { 'L', r.worker, format('%d', r.fence), format('%d', r.exp) }
  elseif r.st == 'w' or r.st == 'r' then
    answers[i] = { 'W', format('%d', r.seq), r.lo }
  else
    local last = r.st == 'b' and call('LINDEX', P .. 'e:' .. key, -1)
    answers[i] = { 'D', format('%d', r.till), last or '' }
  end
end
flush()
return answers
