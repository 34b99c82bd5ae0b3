-- A node shows that it lives, takes and gives back shards, reports those that it has, and sees how all nodes stand.
-- ARGV: prefix, node, its time, seconds of a life, the id of its folder, "1" if it rebuilds lost files, and JSON: take, drop
-- (shards), records, promised (by shard), bytes, starving, probe, end. Without a node: somebody who only reads.
--
-- A node is dead when it was not heard of for a life, by one who was there all the time: where Redis itself was away, all
-- have a life to come back.
local prefix, node, life, place = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5]
local told = cjson.decode(ARGV[7])
local function all(key)
  local found, pairs_ = {}, redis.call('HGETALL', prefix .. key)
  for at = 1, #pairs_, 2 do found[pairs_[at]] = pairs_[at + 1] end
  return found
end
local now = crawl_time(prefix, ARGV[3])
local beats, places, owners, homes = all('beats'), all('places'), all('owners'), all('homes')
local last, since = string.match(beats[node] or '', '(%S+) (%S+)')
if node == '' then
  since = '0'
else
  if not last or now - tonumber(last) > life then since = string.format('%.6f', now) end
  beats[node] = string.format('%.6f %s', now, since)
  places[node] = place
  redis.call('HSET', prefix .. 'beats', node, beats[node])
  redis.call('HSET', prefix .. 'places', node, place)
  redis.call('HSETNX', prefix .. 'nodes', node, ARGV[8])
  redis.call('HSET', prefix .. 'bytes', node, string.format('%d', told.bytes))
end
local living, living_places = {}, {}
for other, beat in pairs(beats) do
  local silent = now - math.max(tonumber(string.match(beat, '%S+')), tonumber(since))
  if silent <= life then
    living[other] = true
    living_places[places[other] or ''] = true
  elseif node ~= '' and silent > 20 * life then
    for _, key in ipairs({'beats', 'nodes', 'places'}) do redis.call('HDEL', prefix .. key, other) end
  end
end
local function change(shard, owner)
  if owner then redis.call('HSET', prefix .. 'owners', shard, owner) else redis.call('HDEL', prefix .. 'owners', shard) end
  owners[shard] = owner
end
for _, shard in ipairs(told.drop) do
  if owners[shard] == node then change(shard, nil) end
end
for _, shard in ipairs(told.take) do
  local home = homes[shard]
  local can_have_files = not home or home == place or (ARGV[6] == '1' and not living_places[home])
  if can_have_files and not living[owners[shard] or ''] then
    change(shard, node)
    if home ~= place then
      redis.call('HSET', prefix .. 'homes', shard, place)
      homes[shard] = place
    end
  end
end
for shard, record in pairs(told.records) do
  if owners[shard] == node then redis.call('HSET', prefix .. 'records', shard, record) end
end
for shard, pages in pairs(told.promised) do
  if owners[shard] == node then redis.call('HSET', prefix .. 'promised', shard, string.format('%d', pages)) end
end
if told.starving then redis.call('SET', prefix .. 'starving', node, 'PX', 3000) end
if owners['0'] == node then  -- who has the first shard is the judge
  if told.probe > 0 then redis.call('HSET', prefix .. 'run', 'probe', string.format('%d', told.probe)) end
  if told['end'] ~= '' then redis.call('HSET', prefix .. 'run', 'end', told['end']) end
end
local names, owned, stay = {}, {}, {}
for other in pairs(living) do table.insert(names, other) end
for shard, owner in pairs(owners) do table.insert(owned, shard) table.insert(owned, owner) end
for shard, home in pairs(homes) do table.insert(stay, shard) table.insert(stay, home) end
return {
  string.format('%.6f', now), names, owned, stay,
  redis.call('HGETALL', prefix .. 'nodes'), redis.call('HGETALL', prefix .. 'records'),
  redis.call('HGETALL', prefix .. 'promised'), redis.call('HVALS', prefix .. 'bytes'),
  redis.call('HGETALL', prefix .. 'run'), redis.call('SCARD', prefix .. 'seeds'),
  redis.call('EXISTS', prefix .. 'starving'),
}
