-- Takes the name of a result back whose content is gone, unless it has another one by now.
--
-- KEYS[1]  the result, `…:{q}:r:KEY`
-- ARGV[1]  hash of the content that is gone
-- Answer: 1 if the name is gone (now, or already), 0 if it names something else.
-- Invariant: a result that came since somebody missed the content stays.
local there = redis.call('GET', KEYS[1])
if not there then return 1 end
-- The first byte says what it is, four say when it was written, see `store/entry.rs`.
if string.sub(there, 1, 1) ~= 'l' or string.sub(there, 6) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
