-- SPDX-License-Identifier: GPL-2.0
--
-- ack: report attempts.
--
-- ARGV: holder, then for each report six:
--   id
--   token
--   verdict	0 ok, 1 retry, 2 dead, 3 release
--   delay	for retry and release: time from now until it is due again. -1: for release,
--		its due time does not change
--   at		for release: the due time, instead of delay. 0: none
--   note	the last error. Empty: none
--
-- Answer: time, then for each report one of:
--   0 applied, 1 stale, 2 applied and the task is dead
--
-- A task that was canceled while it was leased ends with any report, and only ok keeps it as
-- done. A task with a period goes on with its next multiple after ok, or when its attempts are
-- used up. A dead verdict ends it.

local APPLIED, STALE, IS_DEAD = 0, 1, 2
local FIELDS = 6
local holder = holder_bytes(ARGV[1])
local answer = { us }
-- Tasks that are removed at the end, with a single command for each of their keys.
local gone = {}

local headers = read_headers(2, FIELDS)

-- A second report of the task finds nothing.
local function remove_later(id)
	headers[id] = nil
	gone[#gone + 1] = id
end

local function retry(id, h, delay, note)
	h.attempts = h.attempts + 1
	h.lost = 0
	if h.attempts < h.limit then
		schedule(id, h, now + delay)
	elseif h.period > 0 then
		next_period(id, h, true)
	else
		bury(id, h, note)
		return IS_DEAD
	end
	return APPLIED
end

local function release(id, h, delay, at)
	if at > 0 then
		move(id, h, at)
	elseif delay < 0 then
		schedule(id, h, h.due)
	else
		schedule(id, h, now + delay)
	end
	return APPLIED
end

local function report(id, token, verdict, delay, at, note)
	local h = headers[id]
	if not h or h.state ~= LEASED or h.token ~= token or h.holder ~= holder then
		return STALE
	end
	if verdict == '0' then
		if h.period > 0 and not is_last(h) then
			next_period(id, h, true)
		elseif h.keep == 0 then
			remove_later(id)
		else
			finish(id, h)
		end
		return APPLIED
	end
	if is_last(h) then
		remove_later(id)
		return APPLIED
	end
	if note ~= '' then
		redis.call('HSET', NOTE, id, note)
	end
	if verdict == '1' then
		return retry(id, h, delay, note)
	elseif verdict == '3' then
		return release(id, h, delay, at)
	end
	h.attempts = math.min(h.attempts + 1, 65535)
	bury(id, h, note)
	return IS_DEAD
end

local function remove_gone()
	if #gone == 0 then
		return
	end
	redis.call('ZREM', RUN, unpack(gone))
	for _, key in ipairs({ HDR, BODY, NOTE }) do
		redis.call('HDEL', key, unpack(gone))
	end
end

for i = 2, #ARGV, FIELDS do
	answer[#answer + 1] = report(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2],
		tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), string.sub(ARGV[i + 5], 1, 256))
end
remove_gone()
return answer
