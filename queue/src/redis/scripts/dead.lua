-- Reads dead letters, the newest first.
--
-- ARGV[4]  most letters
-- Answer: key and letter of each.
local keys = call('ZREVRANGE', P .. 'y', 0, tonumber(ARGV[4]) - 1)
local answer = {}
for i = 1, #keys do
  answer[#answer + 1] = keys[i]
  answer[#answer + 1] = call('HGET', P .. 'x', keys[i]) or ''
end
return answer
