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
local ends = pack('>I6', now + ttl)
for i = 1, #keys do
  local key = keys[i]
  -- One that the tick has taken back is leased no more.
  local rec = untouched(key)
  local fence, exp, len
  if rec and byte(rec) == 108 then fence, exp, len = unpack_s('>I7I6xxxxxxxB', rec, 18) end
  if fence and fence == tonumber(ARGV[4 + 2 * i]) and (exp > now or grace_till > 0) then
    sets[#sets + 1] = key
    sets[#sets + 1] = sub(rec, 1, 24) .. ends .. sub(rec, 31)
    leases[#leases + 1] = till
    leases[#leases + 1] = key
    answers[i] = #rec == 38 + len and 'C' or 'H'
  else
    answers[i] = 'L'
  end
end
in_chunks('ZADD', P .. 'l', leases, 4000)
flush()
return { till, table.concat(answers) }
