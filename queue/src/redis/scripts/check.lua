-- Looks after jobs of which a client has not heard.
--
-- ARGV[4]    client
-- ARGV[5..]  keys
-- Answer: one text each: `R` its result is stored, `W` the client waits for it here, `F` and its
--         dead letter, `U` the queue does not know that the client waits for it.
tick()
local keys = {}
for i = 5, #ARGV do keys[#keys + 1] = ARGV[i] end
load(keys)
local client, answers = pack('>I7', tonumber(ARGV[4])), {}
for i = 1, #keys do
  local key, r = keys[i], R[keys[i]]
  local answer = 'U'
  if call('EXISTS', P .. 'r:' .. key) == 1 then
    answer = 'R'
  elseif r then
    for at = 1, #r.ws, 11 do
      if sub(r.ws, at, at + 6) == client then answer = 'W' end
    end
  else
    local letter = call('HGET', P .. 'x', key)
    if letter then answer = 'F' .. letter end
  end
  answers[i] = answer
end
flush()
return answers
