-- The operations of schedule.py on a key's schedule, in one step on the server of Redis and by its clock.
-- What the words mean stands there; a table of tests holds the two together.
--
-- Before this text stands the function clock(), which gives the time in seconds (redis_store.py).
-- KEYS[1]: the schedule. ARGV: the name of the operation, the quiet before a schedule that begins, and the operation's
-- figures; one that is not known is empty. Gives back nothing, {'closed', seconds},
-- {'slot', epoch, position, due, wait} or {'go', epoch, at, wait}.

local MOVED, NOTHING, CATCH_UP, TOO_LATE, BEHIND = 0.002, 0.0005, 0.1, 0.5, 0.2
local BACK_OFF, LEAST_PACE = 0.7, 1 / 16
local RECOVERY, RECOVERY_EVERY = 0.05, 1.0
local ONE_LIMIT, GRACE, LATER = 1.0, 2.0, 0.000001
-- A schedule that nobody has used for a day is forgotten; the next one begins as carefully as the first.
local KEPT = 86400
local FIELDS = {'epoch', 'seen', 'shift', 'resumes', 'next_free', 'pace', 'paced', 'blocked_until'}
local STORED = {'epoch', 'seen', 'shift', 'resumes', 'next_free', 'pace', 'paced', 'blocked_until', 'sent'}

-- Seventeen digits give a double back as it was; the server's own way has fourteen.
local function exact(number)
    return string.format('%.17g', number)
end

local function texts_of(schedule)
    local texts = {}
    for i, name in ipairs(FIELDS) do
        texts[i] = exact(schedule[name])
    end
    local sent = {}
    for i, moment in ipairs(schedule.sent) do
        sent[i] = exact(moment)
    end
    texts[#FIELDS + 1] = table.concat(sent, ' ')
    return texts
end

local function load()
    local texts = redis.call('HMGET', KEYS[1], unpack(STORED))
    local schedule = {sent = {}}
    for i, name in ipairs(FIELDS) do
        schedule[name] = texts[i] and tonumber(texts[i])
        if not schedule[name] then
            return nil, {}
        end
    end
    for moment in string.gmatch(texts[#STORED] or '', '%S+') do
        table.insert(schedule.sent, tonumber(moment))
    end
    return schedule, texts
end

local function save(schedule, before, now)
    local changed = {}
    for i, text in ipairs(texts_of(schedule)) do
        if text ~= before[i] then
            table.insert(changed, STORED[i])
            table.insert(changed, text)
        end
    end
    if #changed > 0 then
        redis.call('HSET', KEYS[1], unpack(changed))
        local last = math.max(now, schedule.resumes, schedule.next_free + schedule.shift, schedule.blocked_until)
        redis.call('EXPIRE', KEYS[1], math.ceil(last - now) + KEPT)
    end
end

local function begin(now, quiet)
    return {
        epoch = now, seen = now, shift = quiet, resumes = now + quiet, next_free = now, pace = 1, paced = now,
        blocked_until = 0, sent = {}
    }
end

local function as_of(schedule, now)
    local back = now - schedule.seen
    if back < 0 then
        schedule.seen = now
        schedule.shift = schedule.shift + back
        schedule.resumes = schedule.resumes + back
        schedule.paced = schedule.paced + back
        schedule.blocked_until = schedule.blocked_until + back
        for i, moment in ipairs(schedule.sent) do
            schedule.sent[i] = moment + back
        end
    end
    return schedule
end

local function position(schedule, now)
    return math.max(now, schedule.resumes) - schedule.shift
end

local function put_off(schedule, now, until_)
    local by = until_ - math.max(now, schedule.resumes)
    if by > 0 then
        schedule.shift = schedule.shift + by
        schedule.resumes = until_
    end
end

local function send(schedule, now, most, within)
    local sent, at, recent = schedule.sent, now, 0
    if #sent >= most then
        at = math.max(now, sent[#sent + 1 - most] + within)
    end
    for _, moment in ipairs(sent) do
        if moment > now - within then
            recent = recent + 1
        end
    end
    table.insert(sent, at)
    table.sort(sent)
    while #sent > math.max(most, recent) do
        table.remove(sent, 1)
    end
    schedule.seen = now
    if recent <= most then
        schedule.shift = schedule.shift + math.max(0, at - now - BEHIND)
    end
    return {'go', exact(schedule.epoch), exact(at), exact(at - now)}
end

local function take(schedule, now, gap, most, within)
    if schedule.pace < 1 and now - schedule.paced >= RECOVERY_EVERY then
        schedule.pace = math.min(1, schedule.pace + RECOVERY)
        schedule.paced = now
    end
    gap = gap / schedule.pace
    local missed = now >= schedule.resumes and math.max(0, CATCH_UP - gap) or 0
    local at = math.max(schedule.next_free, position(schedule, now) - missed)
    local due = at + schedule.shift
    schedule.seen = now
    schedule.next_free = at + gap
    if due - now <= NOTHING then
        return send(schedule, now, most, within)
    end
    return {'slot', exact(schedule.epoch), exact(at), exact(due), exact(due - now)}
end

local function due_of(schedule, now, epoch, at)
    if epoch ~= schedule.epoch or at >= schedule.next_free then
        return nil
    end
    local due = at + schedule.shift
    if math.max(now, schedule.resumes) - due > TOO_LATE then
        return nil
    end
    return now >= schedule.resumes and due or math.max(due, schedule.resumes)
end

local operations = {}

function operations.reserve(schedule, now, gap, most, within, epoch, at, told)
    if schedule.blocked_until > now then
        return {'closed', exact(schedule.blocked_until - now)}
    end
    local due = epoch and due_of(schedule, now, epoch, at)
    if due and due > now and due - told > MOVED then
        return {'slot', exact(epoch), exact(at), exact(due), exact(due - now)}
    end
    if due then
        return send(schedule, now, most, within)
    end
    return take(schedule, now, gap, most, within)
end

function operations.delayed(schedule, now, at, by)
    for i, moment in ipairs(schedule.sent) do
        if moment == at then
            schedule.sent[i] = at + math.min(by, TOO_LATE)
        end
    end
    table.sort(schedule.sent)
end

function operations.slow_down(schedule, now, gap, pause, epoch)
    put_off(schedule, now, now + pause)
    schedule.seen = now
    local is_news
    if epoch then
        is_news = epoch == schedule.epoch
    else
        is_news = math.abs(now - schedule.epoch) >= ONE_LIMIT
    end
    if is_news and schedule.pace > LEAST_PACE then
        schedule.pace = math.max(LEAST_PACE, schedule.pace * BACK_OFF)
        schedule.epoch = math.max(now, schedule.epoch + LATER)
        schedule.next_free = position(schedule, now) + gap / schedule.pace
        schedule.paced = math.max(now, schedule.resumes)
    end
end

function operations.cooldown(schedule, now, seconds)
    put_off(schedule, now, now + seconds)
end

function operations.exhaust_quota(schedule, now, seconds)
    schedule.blocked_until = math.max(schedule.blocked_until, now + seconds + GRACE)
    schedule.seen = now
end

function operations.restore_quota(schedule, now)
    schedule.blocked_until = math.min(schedule.blocked_until, now)
end

local figures = {}
for i = 3, #ARGV do
    -- An empty text is no number, hence nil.
    figures[i - 2] = tonumber(ARGV[i])
end
local now = clock()
local schedule, before = load()
schedule = as_of(schedule or begin(now, tonumber(ARGV[2])), now)
local answer = operations[ARGV[1]](schedule, now, unpack(figures, 1, #ARGV - 2))
save(schedule, before, now)
return answer
