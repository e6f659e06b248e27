-- Purses, see `ledger/machine.rs`, which is the same on this side of the wire.
--
-- KEYS[1]  reservations, `…:{q}:ledger`: id -> requests, tokens sent, tokens received, millionths
--          of a dollar, purses. Beside it lie `:ends` (ids by end), `:lapsed` (ids that were given
--          back, by time), `:settled` (ids without a reservation, by time), `:p:PURSE` (fields
--          s* spent, r* reserved, c* caps; r p c u for the four; x: a price was unknown), `:t:PURSE`
--          (counters by USE\tNAME) and `:u:PURSE` (the uses that are told apart).
-- ARGV[1]  the time in ms, 0 for the server's
-- ARGV[2]  ids remembered of each kind
-- ARGV[3]  uses that a purse tells apart
-- ARGV[4]  the use under which all others are counted
-- ARGV[5]  what to do, and then
--   caps      purse, requests, tokens, millionths (empty: no cap)
--   reserve   for each: id, life in ms, 1 if the price is unknown, four amounts, number of purses,
--             purses -> for each `H` held; `R`, purse, what; `W`, purse
--   settle    for each: id, 1 if reserved, 1 if the price is unknown, four amounts, number of
--             purses, purses, number of uses, for each its name, number of counters, and for each
--             its name and how much
--   tallies   purses -> for each: names and values of its counters
--   balances  purses -> for each: 8 amounts, three caps (empty: none), 1 if a price was unknown
-- Invariants: what is reserved on a purse is the sum of its reservations; spent and reserved are
-- within its caps where these were not lowered; a repeated call changes nothing. What outlived its
-- time is given back by every call, at most 5,000 reservations at once.
local L = KEYS[1]
local call, format = redis.call, string.format
local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local most = tonumber(ARGV[2])
local DAY = 86400000
local KINDS = { 'r', 'p', 'c', 'u' }

local function add(purse, part, amounts, sign)
  for k = 1, 4 do
    local n = tonumber(amounts[k])
    if n ~= 0 then call('HINCRBY', L .. ':p:' .. purse, part .. KINDS[k], format('%.0f', sign * n)) end
  end
end

local function release(id)
  local text = call('HGET', L, id)
  call('ZREM', L .. ':ends', id)
  if not text then return false end
  local held = cjson.decode(text)
  for i = 5, #held do add(held[i], 'r', held, -1) end
  call('HDEL', L, id)
  return true
end

local over = call('ZRANGE', L .. ':ends', '-inf', now, 'BYSCORE', 'LIMIT', 0, 5000)
for i = 1, #over do
  if release(over[i]) then call('ZADD', L .. ':lapsed', now, over[i]) end
end
for _, name in ipairs({ ':lapsed', ':settled' }) do
  call('ZREMRANGEBYSCORE', L .. name, '-inf', now - DAY)
  call('ZREMRANGEBYRANK', L .. name, 0, -1 - most)
end

local function load(purse)
  local f = call('HMGET', L .. ':p:' .. purse,
    'sr', 'sp', 'sc', 'su', 'rr', 'rp', 'rc', 'ru', 'cr', 'ct', 'cu', 'x')
  for i = 1, 8 do f[i] = tonumber(f[i] or '0') end
  return f
end

local at = 6
local function take(n)
  local part = {}
  for i = 1, n do part[i] = ARGV[at + i - 1] end
  at = at + n
  return part
end
local function take_purses()
  local n = tonumber(ARGV[at])
  at = at + 1
  return take(n)
end

local function take_uses()
  local uses = {}
  for i = 1, tonumber(take(1)[1]) do
    local head = take(2)
    uses[i] = { head[1], take(2 * tonumber(head[2])) }
  end
  return uses
end

local function tell(purse, use)
  local known, name = L .. ':u:' .. purse, use[1]
  if call('SISMEMBER', known, name) == 0 then
    if call('SCARD', known) < tonumber(ARGV[3]) then call('SADD', known, name) else name = ARGV[4] end
  end
  for i = 1, #use[2], 2 do
    call('HINCRBY', L .. ':t:' .. purse, name .. '\t' .. use[2][i], use[2][i + 1])
  end
end

-- Whether a purse can pay: nil, `later`, or what can never be.
local function room(purse, amounts, is_unpriced)
  local f = load(purse)
  if is_unpriced and f[11] then return 'price' end
  local p = tonumber(amounts[2]) + tonumber(amounts[3])
  local checks = {
    { 'requests', f[9], f[1] + tonumber(amounts[1]), f[5] },
    { 'tokens', f[10], f[2] + f[3] + p, f[6] + f[7] },
    { 'dollars', f[11], f[4] + tonumber(amounts[4]), f[8] },
  }
  local later
  for i = 1, 3 do
    local what, cap, least, held = unpack(checks[i])
    if cap then
      if least > tonumber(cap) then return what end
      if least + held > tonumber(cap) then later = 'later' end
    end
  end
  return later
end

local act = {}

function act.caps()
  local key = L .. ':p:' .. ARGV[at]
  for i, name in ipairs({ 'cr', 'ct', 'cu' }) do
    local cap = ARGV[at + i]
    if cap == '' then call('HDEL', key, name) else call('HSET', key, name, cap) end
  end
  return {}
end

local function reserve()
  local head, amounts = take(3), take(4)
  local purses = take_purses()
  local id, life, is_unpriced = head[1], tonumber(head[2]), head[3] == '1'
  if call('HEXISTS', L, id) == 1 then return { 'H' } end
  local wait
  for i = 1, #purses do
    local found = room(purses[i], amounts, is_unpriced)
    if found == 'later' then
      wait = wait or purses[i]
    elseif found then
      return { 'R', purses[i], found }
    end
  end
  if wait then return { 'W', wait } end
  local held = { amounts[1], amounts[2], amounts[3], amounts[4] }
  for i = 1, #purses do
    add(purses[i], 'r', amounts, 1)
    held[4 + i] = purses[i]
  end
  call('HSET', L, id, cjson.encode(held))
  call('ZADD', L .. ':ends', format('%.0f', now + life), id)
  return { 'H' }
end

function act.reserve()
  local answers = {}
  while at <= #ARGV do answers[#answers + 1] = reserve() end
  return answers
end

function act.settle()
  while at <= #ARGV do
    local head, amounts = take(3), take(4)
    local purses, uses = take_purses(), take_uses()
    local id, is_first = head[1], nil
    if head[2] == '1' then
      is_first = release(id) or call('ZREM', L .. ':lapsed', id) == 1
    else
      is_first = call('ZADD', L .. ':settled', 'NX', now, id) == 1
    end
    if is_first then
      for i = 1, #purses do
        add(purses[i], 's', amounts, 1)
        if head[3] == '1' then call('HSET', L .. ':p:' .. purses[i], 'x', '1') end
        for j = 1, #uses do tell(purses[i], uses[j]) end
      end
    end
  end
  return {}
end

function act.tallies()
  local answers = {}
  while at <= #ARGV do answers[#answers + 1] = call('HGETALL', L .. ':t:' .. take(1)[1]) end
  return answers
end

function act.balances()
  local answers = {}
  while at <= #ARGV do
    local f = load(take(1)[1])
    for i = 1, 8 do f[i] = format('%.0f', math.max(f[i], 0)) end
    for i = 9, 12 do f[i] = f[i] or '' end
    answers[#answers + 1] = f
  end
  return answers
end

return act[ARGV[5]]()
