-- How fast accounts may be called, see `rates/machine.rs`, which is the same on this side of the
-- wire.
--
-- KEYS[1]  names of accounts, `…:{q}:rates`. Beside it lie `:a:NAME` (the account), `:e:NAME`
--          (its calls by end) and `:c:NAME` (call -> tokens asked for, and since when).
-- ARGV[1]  the time in ms, 0 for the server's
-- ARGV[2]  the numbers of `rates/rules.rs`
-- ARGV[3]  what to do, and then
--   limits    name, requests a minute, tokens a minute, calls at once (empty: no limit)
--   ask       for each: name, call, tokens, life in ms -> for each `G`; or when, in how many ms, and why:
--             `R` requests, `T` tokens, `C` concurrency, `P` paused
--   report    for each: name, call, `A` `T` `F` `N`, tokens or wait in ms (empty: none)
--   accounts  -> for each: name, three limits, calls, allowed, requests, tokens, throttled,
--             failed, how long stuck, paused until
-- Invariants: a repeated ask takes once; a call that outlived its time has no place.
local K = KEYS[1]
local call, format, floor = redis.call, string.format, math.floor
local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + floor(t[2] / 1000)
end
local rule = {}
for name, value in string.gmatch(ARGV[2], '(%a+)=(%S+)') do rule[name] = tonumber(value) end

-- Fields that may be missing, and those that are 0 then. `rl`..`ru` is the bucket of requests
-- (level, filled at, booked to, used), `tl`..`tu` that of tokens; `m*` counts requests and tokens
-- of a minute, `t0`..`t4` throttled and failed calls of ten.
local OPEN = { 'rpm', 'tpm', 'con', 'al', 'st' }
local ZERO = { 'rl', 'rf', 'rb', 'ru', 'tl', 'tf', 'tb', 'tu', 'be', 'cut', 'sh', 'seen', 'pu',
  'pn', 'fl', 'fs', 'op', 'm0', 'm1', 'm2', 'm3', 'm4', 't0', 't1', 't2', 't3', 't4' }

local loaded = {}

local function turn(a, w, span)
  local number = floor(now / span)
  if number == a[w .. 0] then return end
  local next_one = number == a[w .. 0] + 1
  a[w .. 3], a[w .. 4] = next_one and a[w .. 1] or 0, next_one and a[w .. 2] or 0
  a[w .. 1], a[w .. 2], a[w .. 0] = 0, 0, number
end

local function sums(a, w, span)
  turn(a, w, span)
  local left = span - now % span
  return a[w .. 1] + math.ceil(a[w .. 3] * left / span), a[w .. 2] + math.ceil(a[w .. 4] * left / span)
end

local function count(a, w, span, x, y)
  turn(a, w, span)
  a[w .. 1], a[w .. 2] = a[w .. 1] + x, a[w .. 2] + y
end

local function drop(name, id)
  call('ZREM', K .. ':e:' .. name, id)
  return call('HDEL', K .. ':c:' .. name, id)
end

local function load(name)
  local a = loaded[name]
  if a then return a end
  a = { name = name }
  local flat = call('HGETALL', K .. ':a:' .. name)
  for i = 1, #flat, 2 do a[flat[i]] = tonumber(flat[i + 1]) end
  for i = 1, #ZERO do a[ZERO[i]] = a[ZERO[i]] or 0 end
  local over = call('ZRANGE', K .. ':e:' .. name, '-inf', now, 'BYSCORE', 'LIMIT', 0, 5000)
  for i = 1, #over do drop(name, over[i]) end
  a.n = call('ZCARD', K .. ':e:' .. name)
  local throttled, failed = sums(a, 't', 600000)
  if not a.al and throttled + failed == 0 then a.sh, a.seen, a.st = 0, 0, nil end
  loaded[name] = a
  return a
end

local function save()
  for name, a in pairs(loaded) do
    local flat, gone = {}, {}
    for i = 1, #ZERO do
      flat[#flat + 1] = ZERO[i]
      flat[#flat + 1] = format('%.17g', a[ZERO[i]])
    end
    for i = 1, #OPEN do
      if a[OPEN[i]] then
        flat[#flat + 1] = OPEN[i]
        flat[#flat + 1] = format('%.17g', a[OPEN[i]])
      else
        gone[#gone + 1] = OPEN[i]
      end
    end
    call('HSET', K .. ':a:' .. name, unpack(flat))
    if #gone > 0 then call('HDEL', K .. ':a:' .. name, unpack(gone)) end
    call('ZADD', K, 0, name)
  end
end

local function size(limit) return math.max(limit / 20, 1) end
local function per_ms(limit) return (limit - size(limit) + 1) / 60000 end

local function fill(a, b, limit)
  if a[b .. 'u'] == 0 then
    a[b .. 'l'], a[b .. 'u'] = size(limit), 1
  else
    local ms = math.max(now - a[b .. 'f'], 0)
    a[b .. 'l'] = math.min(a[b .. 'l'] + ms * per_ms(limit), size(limit))
  end
  a[b .. 'f'] = now
end

local function wait(a, b, limit, n)
  fill(a, b, limit)
  local need = math.min(n, size(limit))
  if a[b .. 'l'] >= need then return nil end
  local ready = now + (need - a[b .. 'l']) / per_ms(limit)
  local at = math.min(math.max(ready, a[b .. 'b']), now + rule.wait)
  a[b .. 'b'] = at + need / per_ms(limit)
  return math.max(math.ceil(at), now + 1)
end

local function room(a)
  local adapted = a.al and math.max(floor(a.al), 1)
  if adapted and a.con then return math.min(adapted, a.con) end
  return adapted or a.con
end

local function held_up(a, tokens)
  if now < a.pu then return a.pu, 'P' end
  local soon = now + rule.step
  if a.op > 0 and a.n > 0 then return soon, 'P' end
  local places = room(a)
  if places and a.n >= places then return soon, 'C' end
  local at = a.rpm and wait(a, 'r', a.rpm, 1)
  if at then return at, 'R' end
  at = a.tpm and wait(a, 't', a.tpm, tokens)
  if at then return at, 'T' end
end

local function ask(name, id, tokens, life)
  local a = load(name)
  if call('HEXISTS', K .. ':c:' .. name, id) == 1 then return { 'G' } end
  local at, why = held_up(a, tokens)
  if at then return { format('%.0f', at), format('%.0f', at - now), why } end
  if a.rpm then a.rl = a.rl - 1 end
  if a.tpm then a.tl = a.tl - tokens end
  count(a, 'm', 60000, 1, 0)
  call('HSET', K .. ':c:' .. name, id, format('%.0f %.0f', tokens, now))
  call('ZADD', K .. ':e:' .. name, format('%.0f', now + life), id)
  a.n = a.n + 1
  return { 'G' }
end

local function answered(a, tokens)
  count(a, 'm', 60000, 0, tokens)
  a.sh = a.sh * (1 - rule.weight)
  a.seen = a.seen + 1
  a.pn, a.fl, a.op, a.st = 0, 0, 0, nil
  if a.al then
    a.al = a.al + math.max(a.be / 16, 1) / math.max(a.al, 1)
    if a.al >= a.be then a.al = nil end
  end
end

local function throttled(a, began, hint, in_flight)
  count(a, 't', 600000, 1, 0)
  a.st = a.st or now
  a.sh = a.sh + (1 - a.sh) * rule.weight
  a.seen = a.seen + 1
  a.fl = 0
  if a.seen >= rule.evidence and a.sh < rule.share then return end
  local is_new = now >= a.pu and (not began or began >= a.cut)
  if is_new and in_flight > 1 then
    local base = a.al or in_flight
    if a.al then a.be = math.max(a.be, base) else a.be = base end
    a.al = math.max(base * rule.cut, 1)
    a.cut = now
  end
  local till = a.pu
  if hint then
    till = now + math.min(hint, rule.hint)
  elseif is_new then
    local step = math.min(rule.pause * 2 ^ math.min(a.pn, 20), rule.pausemax)
    a.pn = a.pn + 1
    local unit = tonumber(string.sub(redis.sha1hex(a.name .. ' ' .. a.seen), 1, 8), 16) / 4294967296
    till = now + math.max(math.ceil(step * unit), 20)
  end
  a.pu = math.max(a.pu, till)
end

local function failed(a)
  count(a, 't', 600000, 0, 1)
  a.st = a.st or now
  if a.fl == 0 then a.fs = now end
  a.fl = a.fl + 1
  local is_down = a.fl >= rule.failures and now - a.fs >= rule.span
  if (a.op > 0 or is_down) and now >= a.pu then
    a.pu = now + math.min(rule.open * 2 ^ math.min(a.op, 20), rule.openmax)
    a.op = a.op + 1
  end
end

local function report(name, id, outcome, number)
  local a = load(name)
  local in_flight = a.n
  local text, began = call('HGET', K .. ':c:' .. name, id), nil
  local used = outcome == 'A' and number or 0
  if text then
    local tokens, since = string.match(text, '^(%d+) (%d+)$')
    began = tonumber(since)
    drop(name, id)
    a.n = a.n - 1
    if a.tpm then
      fill(a, 't', a.tpm)
      a.tl = math.min(a.tl - used + tonumber(tokens), size(a.tpm))
    end
  end
  if outcome == 'A' then
    answered(a, used)
  elseif outcome == 'T' then
    throttled(a, began, number, in_flight)
  elseif outcome == 'F' then
    failed(a)
  end
end

local act = {}

function act.limits()
  local a = load(ARGV[4])
  a.rpm, a.tpm, a.con = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
  return {}
end

function act.ask()
  local answers = {}
  for i = 4, #ARGV, 4 do
    answers[#answers + 1] = ask(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]))
  end
  return answers
end

function act.report()
  for i = 4, #ARGV, 4 do report(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])) end
  return {}
end

function act.accounts()
  local answers = {}
  local names = call('ZRANGE', K, 0, -1)
  for i = 1, #names do
    local name = names[i]
    local a = load(name)
    local throttled_, failed_ = sums(a, 't', 600000)
    local requests, tokens = sums(a, 'm', 60000)
    local is_paused = now < a.pu
    local has_limits = a.rpm or a.tpm or a.con
    if has_limits or a.al or throttled_ + failed_ > 0 or is_paused or a.op > 0 then
      answers[#answers + 1] = { name, tostring(a.rpm or ''), tostring(a.tpm or ''),
        tostring(a.con or ''), a.n, tostring(room(a) or ''), requests,
        format('%.0f', tokens), throttled_, failed_,
        format('%.0f', a.st and now - a.st or 0), format('%.0f', is_paused and a.pu or 0) }
    elseif a.n == 0 then
      call('DEL', K .. ':a:' .. name)
      call('ZREM', K, name)
    end
  end
  -- What was read here has not changed.
  loaded = {}
  return answers
end

local answer = act[ARGV[3]]()
save()
return answer
