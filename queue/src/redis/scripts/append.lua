-- Appends an event to the log of a run.
--
-- KEYS[1]  the log, `…:e:{RUN}`
-- ARGV[1]  number of the event
-- ARGV[2]  the event, with the hash of its text in its first 16 bytes
-- ARGV[3]  how long the log is kept, in ms (0: for ever)
-- Answer: -1 if it is there (now, or already with the same hash), -2 if the number has another
--         event, else the number that is missing before it.
-- Invariant: an event that is there never changes; there is no hole.
local seq, len = tonumber(ARGV[1]), redis.call('LLEN', KEYS[1])
if seq > len then return len end
if seq < len then
  local there = redis.call('LINDEX', KEYS[1], seq)
  if string.sub(there, 1, 16) ~= string.sub(ARGV[2], 1, 16) then return -2 end
else
  redis.call('RPUSH', KEYS[1], ARGV[2])
end
if tonumber(ARGV[3]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return -1
