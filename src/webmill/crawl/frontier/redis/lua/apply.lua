-- Apply one numbered change, whole or not at all, once. 1: done; 0: it was done before; -1: another owner has taken over;
-- -2: it does not follow on the last one, so that Redis has lost some.
-- The first write is the one that may be refused (memory, disk): once a script has written, Redis refuses no more.
local function put_words(key, blob)  -- of a bitmap: place (32 bits) and word (64 bits), again and again
  for at = 1, #blob, 12 do
    redis.call('SETRANGE', key, struct.unpack('<I4', blob, at) * 8, string.sub(blob, at + 4, at + 11))
  end
end
local meta, epoch, name = KEYS[1], ARGV[1], ARGV[2]
local function number(of)
  return tonumber(string.match(of, '^%d+'))
end
local now = redis.call('HMGET', meta, 'epoch', 'change')
if now[1] ~= epoch then return -1 end
local last = now[2] or '0'
if last == name then return 0 end
if number(last) + 1 ~= number(name) then return -2 end
redis.call('HSET', meta, 'change', name)
for _, command in ipairs(cmsgpack.unpack(ARGV[3])) do
  if command[1] == 'WORDS' then put_words(command[2], command[3]) else redis.call(unpack(command)) end
end
return 1
