-- Words of eight bytes at these places of one bitmap, one after the other; zeros where it does not reach that far.
local words = {}
local zeros = string.rep('\0', 8)
for at, place in ipairs(cjson.decode(ARGV[1])) do
  local word = redis.call('GETRANGE', KEYS[1], place * 8, place * 8 + 7)
  words[at] = #word == 8 and word or zeros
end
return table.concat(words)
