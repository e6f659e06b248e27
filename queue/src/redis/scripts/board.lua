-- Small shared records and leases, see `board.rs`.
--
-- KEYS[1]  the records, `…:{q}:board`: path -> version, end in ms (0: none) and mark of the last
--          writer, a line end, the value. Beside it lie `:paths` (all paths, in order), `:ends`
--          (paths by end), `:leases` (name -> fence, end and holder), `:over` (leases by end) and
--          `:fence` (the last fence); `:gone:MARK` says for two minutes that a removal was done.
-- ARGV[1]  the time in ms, 0 for the server's
-- ARGV[2]  what to do, and what it needs:
--   get      path                -> version, value; or nothing
--   put      path, value, version expected (`*`: any, 0: none), life in ms (empty: for ever),
--            mark, lease (empty: none), fence  -> `O`, version; `C`, version found; `N` not holder
--   delete   path, version expected, mark      -> `O`; `C`, version found
--   list     lower bound, upper bound, most    -> path, version, value of each
--   acquire  name, holder, life in ms          -> fence, end; or nothing
--   holder   name                              -> holder; or nothing
--   release  name, holder                      -> nothing
--   now                                        -> the time
-- Invariants: a version grows by one with each write; a fence is never given twice, also when the
-- last second was lost, because it is never behind the clock's microseconds; a call that is
-- repeated with the same mark is done once.
local B = KEYS[1]
local call, format = redis.call, string.format
local now, us = tonumber(ARGV[1]), nil
if now == 0 then
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
  now = math.floor(us / 1000)
else
  us = now * 1000
end

local function remove(path)
  call('HDEL', B, path)
  call('ZREM', B .. ':paths', path)
  call('ZREM', B .. ':ends', path)
end

local over = call('ZRANGE', B .. ':ends', '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
for i = 1, #over do remove(over[i]) end
over = call('ZRANGE', B .. ':over', '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
for i = 1, #over do
  call('HDEL', B .. ':leases', over[i])
  call('ZREM', B .. ':over', over[i])
end

local function load(path)
  local text = call('HGET', B, path)
  if not text then return nil end
  local version, ends, mark, at = string.match(text, '^(%d+) (%d+) (%S+)\n()')
  if ends ~= '0' and tonumber(ends) <= now then return nil end
  return { version = version, mark = mark, value = string.sub(text, at) }
end

local function lease(name)
  local text = call('HGET', B .. ':leases', name)
  if not text then return nil end
  local fence, ends, at = string.match(text, '^(%d+) (%d+) ()')
  if tonumber(ends) <= now then return nil end
  return { fence = fence, holder = string.sub(text, at) }
end

local act = {}

function act.get(path)
  local r = load(path)
  return r and { r.version, r.value } or {}
end

function act.put(path, value, expect, life, mark, name, fence)
  local r = load(path)
  if r and r.mark == mark then return { 'O', r.version } end
  if name ~= '' then
    local held = lease(name)
    if not held or held.fence ~= fence then return { 'N' } end
  end
  local found = r and r.version or '0'
  if expect ~= '*' and expect ~= found then return { 'C', found } end
  local version = format('%.0f', tonumber(found) + 1)
  local ends = life == '' and '0' or format('%.0f', now + tonumber(life))
  call('HSET', B, path, version .. ' ' .. ends .. ' ' .. mark .. '\n' .. value)
  call('ZADD', B .. ':paths', 0, path)
  if ends == '0' then
    call('ZREM', B .. ':ends', path)
  else
    call('ZADD', B .. ':ends', ends, path)
  end
  return { 'O', version }
end

function act.delete(path, expect, mark)
  if call('EXISTS', B .. ':gone:' .. mark) == 1 then return { 'O' } end
  local r = load(path)
  local found = r and r.version or '0'
  if expect ~= '*' and expect ~= found then return { 'C', found } end
  if r then
    remove(path)
    call('SET', B .. ':gone:' .. mark, '1', 'PX', 120000)
  end
  return { 'O' }
end

function act.list(low, high, most)
  local left, answer = tonumber(most), {}
  while left > 0 do
    local paths = call('ZRANGE', B .. ':paths', low, high, 'BYLEX', 'LIMIT', 0, left)
    if #paths == 0 then break end
    for i = 1, #paths do
      local r = load(paths[i])
      if r then
        left = left - 1
        answer[#answer + 1] = paths[i]
        answer[#answer + 1] = r.version
        answer[#answer + 1] = r.value
      end
    end
    low = '(' .. paths[#paths]
  end
  return answer
end

function act.acquire(name, holder, life)
  local held = lease(name)
  if held and held.holder ~= holder then return {} end
  local fence = held and held.fence
  if not fence then
    local last = tonumber(call('GET', B .. ':fence') or '0')
    fence = format('%.0f', math.max(last + 1, us))
    call('SET', B .. ':fence', fence)
  end
  local ends = format('%.0f', now + tonumber(life))
  call('HSET', B .. ':leases', name, fence .. ' ' .. ends .. ' ' .. holder)
  call('ZADD', B .. ':over', ends, name)
  return { fence, ends }
end

function act.holder(name)
  local held = lease(name)
  return held and { held.holder } or {}
end

function act.release(name, holder)
  local held = lease(name)
  if held and held.holder == holder then
    call('HDEL', B .. ':leases', name)
    call('ZREM', B .. ':over', name)
  end
  return {}
end

function act.now() return { format('%.0f', now) } end

return act[ARGV[2]](unpack(ARGV, 3))
