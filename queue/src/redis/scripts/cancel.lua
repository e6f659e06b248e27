-- Withdraws jobs of a run: those named, or a part of all of them.
--
-- ARGV[4]    run
-- ARGV[5]    `k`, then ARGV[6..] the keys; or `a` (all) or `i` (those that are not leased), then
--            ARGV[6] where to go on (0: from the start)
-- Answer: where to go on (0: done), removed, signalled, shared.
-- Invariant: a job that nobody waits for is leased or gone.
local run = tonumber(call('HGET', P .. 'u', 'n:' .. ARGV[4]))
if not run then return { '0', 0, 0, 0 } end
tick()
local keys, cursor = {}, '0'
if ARGV[5] == 'k' then
  for i = 6, #ARGV do keys[#keys + 1] = ARGV[i] end
  load(keys)
else
  local part = call('HSCAN', P .. 'j', ARGV[6], 'COUNT', 1000)
  cursor = part[1]
  for i = 1, #part[2], 2 do
    local key = part[2][i]
    if R[key] == nil then R[key] = parse(part[2][i + 1]) end
    keys[#keys + 1] = key
  end
end
local ours, seen = {}, {}
for i = 1, #keys do
  local r = R[keys[i]]
  if r and not seen[keys[i]] and not (ARGV[5] == 'i' and r.st == 'l') then
    seen[keys[i]] = true
    for at = 1, #r.ws, 11 do
      if unpack_s('>I4', r.ws, at + 7) == run then
        ours[#ours + 1] = { key = keys[i], r = r }
        break
      end
    end
  end
end
table.sort(ours, function(a, b) return a.r.seq < b.r.seq end)
local removed, signalled, shared = 0, 0, 0
for i = 1, #ours do
  local key, r = ours[i].key, ours[i].r
  local rest = {}
  for at = 1, #r.ws, 11 do
    local waiter = sub(r.ws, at, at + 10)
    local client, number = unpack_s('>I7I4', waiter)
    if number == run then
      tell(client, 'c', key .. pack('>I7', r.seq) .. ARGV[4])
      add(waits, run, -1)
    else
      rest[#rest + 1] = waiter
    end
  end
  r.ws = table.concat(rest)
  touch(key)
  if r.ws ~= '' then
    shared = shared + 1
  elseif r.st == 'l' then
    signalled = signalled + 1
    tell(r.wc, 's', key .. pack('>I7', r.fence))
  else
    removed = removed + 1
    unplace(key, r)
    forget(key, r)
  end
end
flush()
return { cursor, removed, signalled, shared }
