-- SPDX-License-Identifier: GPL-2.0
--
-- settings: store the settings of one queue. This script does not use the prelude.
--
-- KEYS: PREFIXqueues, a hash: name to settings.
--
-- ARGV:
--   verb	"make": only if there is no such queue; "change"
--   name
--   settings
--   most	maximum number of queues
--
-- Answer: time, then 1 stored, 0 there is such a queue already, 2 there are too many.

local KEY, verb, name, settings, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]

if not redis.call('HGET', KEY, name) and redis.call('HLEN', KEY) >= most then
	return { us, 2 }
elseif verb == 'make' then
	return { us, redis.call('HSETNX', KEY, name, settings) }
end
redis.call('HSET', KEY, name, settings)
return { us, 1 }
