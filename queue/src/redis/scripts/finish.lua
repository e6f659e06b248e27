-- Ends leases, in each of the ways in which a worker may. It runs also when memory is short: what
-- was paid for is kept.
--
-- ARGV[4]     how long results are kept, in ms (0: for ever)
-- ARGV[5..7]  client, slot, number of this call of the slot
-- ARGV[8]     ends; then for each: kind, key, fence, and
--               C  the result: it is stored unless there is one, and the job ends
--               R  wait in ms, cause: another try
--               P  wait in ms, cause: later, as if it had not been handed out
--               H  handed back untouched
--               G  cause, detail: dead
-- Answer: one character each: `1` done (C: it is the first result), `0` done, but the key had a
--         result, `S` the lease does not count any more. Or `old`.
-- Invariant: a repeated call answers what the first did; a lease ends once.
local keep = ARGV[4]
local memo_key = P .. 'm:' .. ARGV[5] .. ':' .. ARGV[6]
local number = tonumber(ARGV[7])
local memo = call('GET', memo_key)
if memo then
  local last = unpack_s('>I7', memo)
  if last > number then return 'old' end
  if last == number then return sub(memo, 8) end
end
tick()

local sizes = { C = 1, R = 2, P = 2, H = 0, G = 2 }
local keys, at = {}, 9
for i = 1, tonumber(ARGV[8]) do
  keys[i] = ARGV[at + 1]
  at = at + 3 + sizes[ARGV[at]]
end
load(keys)
local answers, refused = {}, 0
at = 9
for i = 1, #keys do
  local kind, key, fence = ARGV[at], keys[i], tonumber(ARGV[at + 2])
  local r = R[key]
  local answer = '1'
  if not r or r.st ~= 'l' or r.fence ~= fence or r.exp <= now then
    refused = refused + 1
    answer = 'S'
  elseif kind == 'C' then
    local is_first
    if keep ~= '0' then
      is_first = call('SET', P .. 'r:' .. key, ARGV[at + 3], 'NX', 'PX', keep)
    else
      is_first = call('SET', P .. 'r:' .. key, ARGV[at + 3], 'NX')
    end
    answer = is_first and '1' or '0'
    tell_all(r, 'r', key)
    unlease[#unlease + 1] = key
    forget(key, r)
  else
    unlease[#unlease + 1] = key
    if kind == 'H' then
      make_ready(key, r)
    else
      local cause = ARGV[at + (kind == 'G' and 3 or 4)]
      note(key, r.worker, cause)
      if kind == 'G' then
        bury(key, r, cause, ARGV[at + 4])
      else
        if kind == 'R' then
          r.re = math.min(r.re + 1, 65535)
        else
          r.de = math.max(r.de - 1, 0)
        end
        local wait = tonumber(ARGV[at + 3])
        if wait > 0 and r.ws ~= '' then delay(key, r, now + wait, 'b') else make_ready(key, r) end
      end
    end
  end
  answers[i] = answer
  at = at + 3 + sizes[kind]
end
if refused > 0 then call('HINCRBY', KEYS[1], 'r', refused) end
local told_back = table.concat(answers)
call('SET', memo_key, pack('>I7', number) .. told_back, 'PX', 120000)
flush()
return told_back
