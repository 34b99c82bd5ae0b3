-- Join the run that is under way, or begin one. ARGV: prefix, node, its place, its record, seconds of a life, "1" to
-- begin one though nodes that did not leave might come back, flags, limits, and nodes that are surely dead as JSON. Returns
-- "joined", "began" or "wait", and the run.
local prefix, node, place, life = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local now = crawl_time(prefix, 0)
local is_alive, may_come_back = false, false
for _, dead in ipairs(cjson.decode(ARGV[9])) do
  for _, key in ipairs({'beats', 'nodes', 'places'}) do redis.call('HDEL', prefix .. key, dead) end
end
local beats = redis.call('HGETALL', prefix .. 'beats')
for at = 1, #beats, 2 do
  local other = beats[at]
  if other ~= node then
    if now - tonumber(string.match(beats[at + 1], '%S+')) <= life then
      is_alive = true
    else
      may_come_back = true
    end
  end
end
local last_end = redis.call('HGET', prefix .. 'run', 'end')
if is_alive and last_end then return {'wait', {}} end  -- they are about to leave
if not is_alive and may_come_back and ARGV[6] ~= '1' then return {'wait', {}} end
local state = 'joined'
if not is_alive then
  state = 'began'
  for _, key in ipairs({'run', 'promised', 'bytes', 'records', 'beats', 'nodes', 'places'}) do
    redis.call('DEL', prefix .. key)
  end
  redis.call('HSET', prefix .. 'run', 'id', node, 'started', string.format('%.6f', now), 'limits', ARGV[8])
  redis.call('SET', prefix .. 'flags', ARGV[7])
end
redis.call('HSET', prefix .. 'nodes', node, ARGV[4])
redis.call('HSET', prefix .. 'places', node, place)
redis.call('HSET', prefix .. 'beats', node, string.format('%.6f %.6f', now, now))
return {state, redis.call('HGETALL', prefix .. 'run')}
