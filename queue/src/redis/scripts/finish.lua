-- Ends leases, in each of the ways in which a worker may. It runs also when memory is short: what
-- was paid for is kept.
--
-- ARGV[4]     how long results are kept, in ms (0: for ever)
-- ARGV[5..7]  client, slot, number of this call of the slot
-- ARGV[8]     of each end kind, key and fence (1, 32 and 7 bytes); then for each
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

local heads, keys = ARGV[8], {}
for at = 1, #heads, 40 do keys[#keys + 1] = sub(heads, at + 1, at + 32) end
load(keys)

-- Stores a result; returns whether it is the first.
local function store(key, result)
  if keep ~= '0' then return call('SET', P .. 'r:' .. key, result, 'NX', 'PX', keep) end
  return call('SET', P .. 'r:' .. key, result, 'NX')
end

-- By who waits alone: how many jobs, and their keys.
local alone, streams = {}, {}

-- Completes a job that was only leased: nothing is taken apart. Returns nil if it is not so simple.
local function complete(key, fence, result)
  local rec = untouched(key)
  if not rec or byte(rec) ~= 108 or sub(rec, 18, 24) ~= fence then return nil end
  local op, lane, seq, re, lo, exp, len = unpack_s('>xxBI2I7I2BxxxxxxxxxI6xxxxxxxB', rec)
  local waiter = sub(rec, 39 + len)
  if (exp <= now and grace_till == 0) or #waiter ~= 11 or re + lo > 0 then return nil end
  local is_first = store(key, result)
  local box = alone[waiter]
  if not box then
    local of, run = unpack_s('>I7I4', waiter)
    box = { n = 0, run = run, results = mail_of(of).results }
    alone[waiter] = box
  end
  box.n = box.n + 1
  box.results[#box.results + 1] = key
  local ids = streams[lane * 8 + op]
  if not ids then
    ids = gone_from(stream(lane, op))
    streams[lane * 8 + op] = ids
  end
  ids[#ids + 1] = format('%d', seq)
  unlease[#unlease + 1] = key
  dels[#dels + 1] = key
  R[key] = false
  return is_first and '1' or '0'
end

local sizes = { C = 1, R = 2, P = 2, H = 0, G = 2 }
local answers, refused = {}, 0
local at = 9
for i = 1, #keys do
  local from = 40 * i - 39
  local kind, key, fence = sub(heads, from, from), keys[i], sub(heads, from + 33, from + 39)
  local answer = kind == 'C' and complete(key, fence, ARGV[at])
  local r = not answer and R[key]
  if answer then
    -- Done.
  elseif not is_held(r, (unpack_s('>I7', fence))) then
    refused = refused + 1
    answer = 'S'
  elseif kind == 'C' then
    answer = store(key, ARGV[at]) and '1' or '0'
    tell_all(r, 'r', key)
    unlease[#unlease + 1] = key
    forget(key, r)
  else
    answer = '1'
    unlease[#unlease + 1] = key
    if kind == 'H' then
      make_ready(key, r)
    else
      local cause = ARGV[at + (kind == 'G' and 0 or 1)]
      note(key, r.worker, cause)
      if kind == 'G' then
        bury(key, r, cause, ARGV[at + 1])
      else
        if kind == 'R' then
          r.re = math.min(r.re + 1, 65535)
        else
          r.de = math.max(r.de - 1, 0)
        end
        local wait = tonumber(ARGV[at])
        if wait > 0 and r.ws ~= '' then delay(key, r, now + wait, 'b') else make_ready(key, r) end
      end
    end
  end
  answers[i] = answer
  at = at + sizes[kind]
end
for _, box in pairs(alone) do add(waits, box.run, -box.n) end
if refused > 0 then call('HINCRBY', KEYS[1], 'r', refused) end
local told_back = table.concat(answers)
call('SET', memo_key, pack('>I7', number) .. told_back, 'PX', 120000)
flush()
return told_back
