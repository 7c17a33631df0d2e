// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

// Package twheeld is a client of twheeld: tasks, schedules and workers. It needs only
// the standard library, and neither libtwheel nor /dev/twheel.
//
//	client, err := twheeld.New("", "") // TWHEELD and TWHEELD_TOKEN name the daemon and the token
//	put, err := client.Put(ctx, "mail", twheeld.Task{In: twheeld.Duration(3 * time.Second),
//		Callback: &twheeld.Callback{URL: "http://127.0.0.1:8000/"}})
//
// If twheeld refuses a request, the error is an *Error with the message of twheeld. If twheeld
// cannot be reached, or answers 429 or 503, the request is repeated with a growing delay until
// Client.Deadline has passed. A request whose fate is unknown, for example after 502 or 504 of a
// proxy, is repeated as well, except for those that might then be done twice: a put with IfExists
// "fail", and a run of a schedule. Several goroutines may call the methods at the same time, and
// each method returns when its context ends.
package twheeld

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	maxBatch   = 1000
)

// A Client is made by New. Its fields may be changed before the first request.
type Client struct {
	Deadline time.Duration // of a request and its repetitions; default 30 s
	Timeout  time.Duration // of one of them, without the time that a worker waits; default 30 s
	HTTP     *http.Client  // its Timeout must be longer than a worker waits
	base     string
	token    string
}

// An Error is an error that twheeld has reported. Its Status is 0 if twheeld did not answer, and for
// a single task of a batch.
type Error struct {
	Status     int    `json:"-"`
	Code       string `json:"code"`
	Message    string `json:"message"`
	Field      string `json:"field"`
	Repeated   bool   `json:"-"` // the fate of an earlier try is unknown
	retryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Field != "" {
		return "twheeld: " + e.Field + ": " + e.Message
	}
	return "twheeld: " + e.Message
}

// Passing returns true if a repetition may help: twheeld was unreachable or unable until the
// deadline.
func (e *Error) Passing() bool {
	switch e.Code {
	case "unreachable", "fate_unknown", "store_down", "store_full", "busy", "stopping", "queue_full":
		return true
	}
	return e.Status == 429 || e.Status == 503
}

// Duration is a time.Duration of whole milliseconds in JSON.
type Duration time.Duration

// MarshalJSON writes "1500ms".
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatInt(time.Duration(d).Milliseconds(), 10) + "ms")
}

// Callback is the request of a push task.
type Callback struct {
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Retry says when and how often a task that fails is repeated.
type Retry struct {
	Limit  int      `json:"limit,omitempty"`
	Base   Duration `json:"base,omitempty"`
	Cap    Duration `json:"cap,omitempty"`
	Jitter *float64 `json:"jitter,omitempty"`
}

// Late says what happens to a task that is late: Then is run, skip or dead.
type Late struct {
	After Duration `json:"after"`
	Then  string   `json:"then"`
}

// Task is a task to be made. A task without At and In is due now.
type Task struct {
	ID       string     `json:"id,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	In       Duration   `json:"in,omitempty"`
	Every    Duration   `json:"every,omitempty"`
	IfExists string     `json:"if_exists,omitempty"` // replace (the default), update, keep or fail
	Callback *Callback  `json:"callback,omitempty"`
	Payload  any        `json:"payload,omitempty"`        // as JSON
	Bytes    []byte     `json:"payload_base64,omitempty"` // or as they are
	Retry    *Retry     `json:"retry,omitempty"`
	Timeout  Duration   `json:"timeout,omitempty"`
	Late     *Late      `json:"late,omitempty"`
	Keep     Duration   `json:"keep,omitempty"`
}

// Put is the result for a task: created, replaced, updated, kept, moved or replayed. In the answer
// to a batch, Err is set if the task was refused.
type Put struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Due     int64  `json:"due"` // Unix milliseconds
	Version int64  `json:"version"`
	Result  string `json:"result"`
	Was     string `json:"was"`
	Err     *Error `json:"error"`
}

// Schedule is the definition of a schedule: Cron, RRule or Every, and what its runs do.
type Schedule struct {
	Cron        string     `json:"cron,omitempty"`
	RRule       string     `json:"rrule,omitempty"`
	Every       Duration   `json:"every,omitempty"`
	TZ          string     `json:"tz,omitempty"`
	Start       *time.Time `json:"start,omitempty"`
	End         *time.Time `json:"end,omitempty"`
	Max         int        `json:"max,omitempty"`
	Jitter      Duration   `json:"jitter,omitempty"`
	Missed      string     `json:"missed,omitempty"` // once (the default), skip or all
	MissedLimit int        `json:"missed_limit,omitempty"`
	Overlap     string     `json:"overlap,omitempty"` // allow (the default), skip or queue
	Enabled     *bool      `json:"enabled,omitempty"`
	Task        Task       `json:"task"`
}

// ScheduleState is the state of a schedule. Next is 0 if no run is left.
type ScheduleState struct {
	Name    string `json:"schedule"`
	Queue   string `json:"queue"`
	Cron    string `json:"cron"`
	RRule   string `json:"rrule"`
	TZ      string `json:"tz"`
	Enabled bool   `json:"enabled"`
	Runs    int64  `json:"runs"`
	Next    int64  `json:"next"`
}

// A Run is a future run: the id of its task, its time in the calendar, and the same with jitter.
type Run struct {
	ID  string `json:"id"`
	At  int64  `json:"at"`
	Due int64  `json:"due"`
}

// New makes a client of the daemon at "unix:PATH", "HOST:PORT" or a URL with http or https. For
// empty arguments, it uses TWHEELD and TWHEELD_TOKEN.
func New(server, token string) (*Client, error) {
	for _, other := range []string{os.Getenv("TWHEELD"), "127.0.0.1:7733"} {
		if server == "" {
			server = other
		}
	}
	if token == "" {
		token = os.Getenv("TWHEELD_TOKEN")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if path := strings.TrimPrefix(server, "unix:"); path != server {
		server = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	} else if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("twheeld: %s: not unix:PATH, HOST:PORT or a URL", server)
	}
	return &Client{Deadline: 30 * time.Second, Timeout: 30 * time.Second,
		HTTP: &http.Client{Transport: transport},
		base: u.Scheme + "://" + u.Host + "/v1/queues", token: token}, nil
}

// once sends a request. Its error is an *Error, or the error of the context.
func (c *Client) once(ctx context.Context, method, path string, data []byte, out any, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, method, c.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.HTTP.Do(req)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &op) && op.Op == "dial":
		return &Error{Code: "unreachable", Message: "cannot be reached: " + err.Error()}
	case err != nil:
		return &Error{Code: "fate_unknown", Message: "no answer: " + err.Error()}
	case answer.StatusCode < 400 && json.Unmarshal(text, out) == nil:
		return nil
	}
	refused := struct{ Error *Error }{}
	if json.Unmarshal(text, &refused) != nil || refused.Error == nil {
		refused.Error = &Error{Code: "internal", Message: "not twheeld: HTTP " + answer.Status}
		if answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusGatewayTimeout {
			refused.Error.Code = "fate_unknown" // a proxy got no answer
		}
	}
	refused.Error.Status = answer.StatusCode
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	refused.Error.retryAfter = time.Duration(seconds) * time.Second
	return refused.Error
}

// call sends a request, and repeats it as the comment on the package says. If repeat is false, it
// repeats only requests that twheeld has certainly not carried out.
func (c *Client) call(ctx context.Context, method, path string, in, out any, repeat bool) error {
	return c.callAndWait(ctx, method, path, in, out, repeat, 0)
}

// callAndWait does the same, but extends the timeout by wait, for a daemon that waits for tasks
// before it answers.
func (c *Client) callAndWait(ctx context.Context, method, path string, in, out any, repeat bool, wait time.Duration) error {
	var data []byte
	if in != nil {
		var err error
		if data, err = json.Marshal(in); err != nil {
			return err
		}
	}
	end, unknown := time.Now().Add(c.Deadline), false
	for pause := firstPause; ; pause *= 2 {
		var e *Error
		if err := c.once(ctx, method, path, data, out, c.Timeout+wait); !errors.As(err, &e) {
			return err
		}
		e.Repeated = unknown
		unknown = unknown || e.Code == "fate_unknown"
		if pause > maxPause {
			pause = maxPause
		}
		delay := pause + time.Duration(rand.Int63n(int64(pause)))
		if delay < e.retryAfter {
			delay = e.retryAfter
		}
		if !e.Passing() || time.Now().Add(delay).After(end) || e.Code == "fate_unknown" && !repeat {
			return e
		}
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// to makes a path out of words.
func to(words ...string) string {
	path := ""
	for _, word := range words {
		path += "/" + strings.ReplaceAll(url.PathEscape(word), "+", "%2B")
	}
	return path
}

// MakeQueue makes a queue or changes its settings, for example {"mode": "pull"}.
func (c *Client) MakeQueue(ctx context.Context, queue string, settings map[string]any) error {
	return c.call(ctx, "PUT", to(queue), settings, &struct{}{}, true)
}

// Put makes a task. A task without an id gets one here, so that it is only made once. If there
// already is a task with the id, it is replaced by default, so if a request of unknown fate is
// repeated, the task may run again. Set IfExists to "keep" to prevent that.
func (c *Client) Put(ctx context.Context, queue string, task Task) (put Put, err error) {
	if err = task.name(); err != nil {
		return put, err
	}
	err = c.call(ctx, "POST", to(queue, "tasks"), task, &put, task.IfExists != "fail")
	return put, err
}

// name gives a task without an id an id, so that a request can be repeated safely.
func (t *Task) name() error {
	if t.ID != "" {
		return nil
	}
	id := make([]byte, 16)
	_, err := crand.Read(id)
	t.ID, t.IfExists = hex.EncodeToString(id), "keep"
	return err
}

// PutAll makes many tasks. It returns the result for each, in the same order.
func (c *Client) PutAll(ctx context.Context, queue string, tasks []Task) ([]Put, error) {
	puts, left := make([]Put, len(tasks)), make([]int, len(tasks))
	tasks = append([]Task(nil), tasks...)
	for n := range tasks {
		left[n] = n
		if err := tasks[n].name(); err != nil {
			return nil, err
		}
	}
	end := time.Now().Add(c.Deadline)
	for pause := firstPause; len(left) > 0; pause *= 2 {
		again := []int(nil)
		for len(left) > 0 {
			part := left
			if len(part) > maxBatch {
				part = part[:maxBatch]
			}
			left = left[len(part):]
			batch, repeat := make([]Task, len(part)), true
			for i, n := range part {
				batch[i] = tasks[n]
				repeat = repeat && tasks[n].IfExists != "fail"
			}
			var answer struct{ Tasks []Put }
			err := c.call(ctx, "POST", to(queue, "tasks"), map[string]any{"tasks": batch}, &answer, repeat)
			if err != nil {
				return nil, err
			}
			for i, n := range part {
				puts[n] = answer.Tasks[i]
				if mayPass(puts[n].Err, tasks[n]) {
					again = append(again, n)
				}
			}
		}
		if left = again; len(left) == 0 || time.Now().Add(pause).After(end) {
			break
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	return puts, nil
}

func mayPass(e *Error, task Task) bool {
	return e != nil && e.Passing() && (e.Code != "fate_unknown" || task.IfExists != "fail")
}

// A View is a task as twheeld has stored it. Times are Unix milliseconds, and 0 if there is none.
type View struct {
	ID       string          `json:"id"`
	State    string          `json:"state"`
	Due      int64           `json:"due"`
	FirstDue int64           `json:"first_due"`
	Version  int64           `json:"version"`
	Attempts int             `json:"attempts"`
	LeaseEnd int64           `json:"lease_end"`
	Ended    int64           `json:"ended"`
	Error    string          `json:"error"` // the last one
	Payload  json.RawMessage `json:"payload"`
	Bytes    []byte          `json:"payload_base64"`
}

// Get reads a task.
func (c *Client) Get(ctx context.Context, queue, id string) (view View, err error) {
	err = c.call(ctx, "GET", to(queue, "tasks", id), nil, &view, true)
	return view, err
}

// Replay schedules a dead task again.
func (c *Client) Replay(ctx context.Context, queue, id string) (put Put, err error) {
	err = c.call(ctx, "POST", to(queue, "tasks", id, "replay"), nil, &put, true)
	return put, err
}

// Cancel cancels a task, and returns the state that it was in. If that was "leased", an attempt
// that has begun continues and is the last one. Otherwise no attempt begins any more.
func (c *Client) Cancel(ctx context.Context, queue, id string) (string, error) {
	var answer struct{ State string }
	err := c.call(ctx, "DELETE", to(queue, "tasks", id), nil, &answer, true)
	return answer.State, err
}

// Move gives a task another due time.
func (c *Client) Move(ctx context.Context, queue, id string, at time.Time) (put Put, err error) {
	err = c.call(ctx, "PATCH", to(queue, "tasks", id), map[string]any{"at": at}, &put, true)
	return put, err
}

// PutSchedule makes a schedule, or replaces its definition. Putting the same one changes nothing.
func (c *Client) PutSchedule(ctx context.Context, queue, name string, s Schedule) (state ScheduleState, err error) {
	err = c.call(ctx, "PUT", to(queue, "schedules", name), s, &state, true)
	return state, err
}

// PatchSchedule changes fields of a schedule; nil removes one.
func (c *Client) PatchSchedule(ctx context.Context, queue, name string, fields map[string]any) (state ScheduleState, err error) {
	err = c.call(ctx, "PATCH", to(queue, "schedules", name), fields, &state, true)
	return state, err
}

// GetSchedule reads the state of a schedule.
func (c *Client) GetSchedule(ctx context.Context, queue, name string) (state ScheduleState, err error) {
	err = c.call(ctx, "GET", to(queue, "schedules", name), nil, &state, true)
	return state, err
}

// Schedules returns all schedules of a queue, sorted by name.
func (c *Client) Schedules(ctx context.Context, queue string) (all []ScheduleState, err error) {
	for cursor := "?limit=1000"; ; {
		var answer struct {
			Schedules []ScheduleState
			Cursor    string
		}
		err = c.call(ctx, "GET", to(queue, "schedules")+cursor, nil, &answer, true)
		all = append(all, answer.Schedules...)
		if err != nil || answer.Cursor == "" {
			return all, err
		}
		cursor = "?limit=1000&cursor=" + url.QueryEscape(answer.Cursor)
	}
}

// DeleteSchedule removes a schedule and the task of its next run.
func (c *Client) DeleteSchedule(ctx context.Context, queue, name string) error {
	return c.call(ctx, "DELETE", to(queue, "schedules", name), nil, &struct{}{}, true)
}

// NextRuns returns the next runs of a schedule.
func (c *Client) NextRuns(ctx context.Context, queue, name string, count int) ([]Run, error) {
	var answer struct{ Next []Run }
	path := to(queue, "schedules", name, "next") + "?n=" + strconv.Itoa(count)
	err := c.call(ctx, "GET", path, nil, &answer, true)
	return answer.Next, err
}

// RunSchedule makes an additional run of a schedule now.
func (c *Client) RunSchedule(ctx context.Context, queue, name string) (put Put, err error) {
	err = c.call(ctx, "POST", to(queue, "schedules", name, "run"), nil, &put, false)
	return put, err
}

// EnableSchedule enables or disables a schedule.
func (c *Client) EnableSchedule(ctx context.Context, queue, name string, enabled bool) (state ScheduleState, err error) {
	verb := "enable"
	if !enabled {
		verb = "disable"
	}
	err = c.call(ctx, "POST", to(queue, "schedules", name, verb), nil, &state, true)
	return state, err
}
