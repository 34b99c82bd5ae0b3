-- Words of eight bytes at these places (32 bits each) of one bitmap, one after the other; zeros where it does not reach that far.
local words = {}
local zeros = string.rep('\0', 8)
for at = 1, #ARGV[1], 4 do
  local place = struct.unpack('<I4', ARGV[1], at)
  local word = redis.call('GETRANGE', KEYS[1], place * 8, place * 8 + 7)
  words[#words + 1] = #word == 8 and word or zeros
end
return table.concat(words)
