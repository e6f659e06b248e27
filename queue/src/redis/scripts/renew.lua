-- Extends leases.
--
-- ARGV[4]    lease time in ms
-- ARGV[5..]  key and fence of each
-- Answer: new end of the leases, and one character each: `H` held, `C` held, but nobody waits for
--         the job any more, `L` lost.
-- Invariant: a lost lease is never revived.
local ttl = tonumber(ARGV[4])
tick()
local keys = {}
for i = 5, #ARGV, 2 do keys[#keys + 1] = ARGV[i] end
load(keys)
local answers, leases = {}, {}
local till = format('%d', now + ttl)
for i = 1, #keys do
  local key, r = keys[i], R[keys[i]]
  if r and r.st == 'l' and r.fence == tonumber(ARGV[4 + 2 * i]) and r.exp > now then
    r.exp = now + ttl
    touch(key)
    leases[#leases + 1] = till
    leases[#leases + 1] = key
    answers[i] = r.ws == '' and 'C' or 'H'
  else
    answers[i] = 'L'
  end
end
in_chunks('ZADD', P .. 'l', leases, 4000)
flush()
return { till, table.concat(answers) }
