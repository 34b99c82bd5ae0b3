-- What became of bookings. ARGV: prefix, the caller's time, JSON: [[key, booked, until], ...]. What somebody else has booked
-- meanwhile is never made shorter.
local prefix = ARGV[1]
local now = crawl_time(prefix, ARGV[2])
for _, kept in ipairs(cjson.decode(ARGV[3])) do
  local key, free = prefix .. 'gate:' .. kept[1], kept[3]
  local found = redis.call('GET', key)
  local taken = found and tonumber(string.match(found, '%S+')) or 0
  if taken ~= kept[2] then free = math.max(free, taken) end
  if free > now then
    redis.call('SET', key, string.format('%.17g %.17g', free, free), 'PX', math.ceil((free - now + 10) * 1000))
  elseif found then
    redis.call('DEL', key)
  end
end
return string.format('%.6f', now)
