-- What a person tells the run under way: to stop, or to go on with other settings. ARGV: prefix, seconds of a life, the end
-- ('' for none), flags, limits. Returns 1, or 0 where no run is under way.
local prefix, life = ARGV[1], tonumber(ARGV[2])
local now, is_alive = crawl_time(prefix, 0), false
for _, beat in ipairs(redis.call('HVALS', prefix .. 'beats')) do
  if now - tonumber(string.match(beat, '%S+')) <= life then is_alive = true end
end
local run = prefix .. 'run'
if not is_alive or redis.call('EXISTS', run) == 0 or redis.call('HGET', run, 'end') then return 0 end
if ARGV[3] ~= '' then
  redis.call('HSET', run, 'end', ARGV[3])
else
  redis.call('SET', prefix .. 'flags', ARGV[4])
  redis.call('HSET', run, 'limits', ARGV[5])
  redis.call('HINCRBY', run, 'revision', 1)
end
return 1
