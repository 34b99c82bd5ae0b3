-- For each of these hashes of 16 bytes '1' if the Bloom filter may have it, else '0'.
local blob, answers = ARGV[1], {}
for start = 1, #blob, 16000 do
  local some = {}
  for at = start, math.min(start + 15999, #blob), 16 do
    some[#some + 1] = string.sub(blob, at, at + 15)
  end
  answers[#answers + 1] = table.concat(redis.call('BF.MEXISTS', KEYS[1], unpack(some)))
end
return table.concat(answers)
