// SPDX-License-Identifier: GPL-2.0

package twheeld

// With a daemon, by tests/daemon/client_test.py: TWHEELD is its URL, TWHEELD_TEST_SOCKET its
// socket, and TWHEELD_TEST_LOSSY a proxy that loses the answer of each second connection.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

var ctx = context.Background()

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// begin returns a client, and a queue of the test's own.
func begin(t *testing.T) (*Client, string) {
	if os.Getenv("TWHEELD_TEST_SOCKET") == "" {
		t.Skip("there is no daemon")
	}
	c, err := New("", "")
	fatal(t, err)
	queue := "go-" + t.Name()
	fatal(t, c.MakeQueue(ctx, queue, map[string]any{"mode": "pull"}))
	return c, queue
}

// connect returns a client that has made no request.
func connect(t *testing.T, server string) *Client {
	c, err := New(server, "")
	fatal(t, err)
	return c
}

func TestTasks(t *testing.T) {
	c, queue := begin(t)
	id := "a/b.c@d=e+f~g"
	for _, c := range []*Client{c, connect(t, "unix:"+os.Getenv("TWHEELD_TEST_SOCKET"))} {
		put, err := c.Put(ctx, queue, Task{ID: id, In: Duration(time.Hour), Payload: map[string]int{"n": 1}})
		fatal(t, err)
		if put.State != "scheduled" || put.Result != "created" || put.ID != id {
			t.Error(put)
		}
		_, err = c.Put(ctx, queue, Task{ID: id, IfExists: "fail"})
		var e *Error
		if !errors.As(err, &e) || e.Code != "exists" || e.Status != 409 || e.Passing() {
			t.Error(err)
		}
		view, err := c.Get(ctx, queue, id)
		if err != nil || view.State != "scheduled" || string(view.Payload) != `{"n":1}` {
			t.Error(view, err)
		}
		when := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
		put, err = c.Move(ctx, queue, id, when)
		if err != nil || put.Due != when.UnixMilli() {
			t.Error(put, err)
		}
		state, err := c.Cancel(ctx, queue, id)
		if err != nil || state != "scheduled" {
			t.Error(state, err)
		}
		if _, err = c.Cancel(ctx, queue, id); code(err) != "not_found" {
			t.Error(err)
		}
	}
	// A part of a millisecond makes it no earlier.
	when := time.Now().Add(time.Hour).Truncate(time.Millisecond).Add(time.Microsecond)
	put, err := c.Put(ctx, queue, Task{At: &when})
	if err != nil || put.Due != when.UnixMilli()+1 {
		t.Error(put, when.UnixMilli(), err)
	}
	var e *Error
	_, err = c.Put(ctx, queue, Task{Timeout: Duration(1e6 * time.Hour)})
	if !errors.As(err, &e) || e.Code != "invalid" || e.Field != "timeout" {
		t.Error(err)
	}
}

func TestBatch(t *testing.T) {
	c, queue := begin(t)
	tasks := make([]Task, 1502)
	for n := range tasks {
		tasks[n] = Task{ID: fmt.Sprint("t", n), In: Duration(time.Hour)}
	}
	tasks[1500].ID, tasks[1501].ID = "", "<"
	puts, err := c.PutAll(ctx, queue, tasks)
	fatal(t, err)
	for n, put := range puts[:1500] {
		if put.ID != tasks[n].ID || put.Result != "created" {
			t.Fatal(n, put)
		}
	}
	if len(puts[1500].ID) != 32 || puts[1501].Err == nil || puts[1501].Err.Field == "" ||
		puts[1501].Err.Passing() {
		t.Error(puts[1500], puts[1501])
	}
}

func TestSchedules(t *testing.T) {
	c, queue := begin(t)
	s := Schedule{Cron: "30 2 * * mon-fri", TZ: "Europe/Berlin", Task: Task{Payload: "report"}}
	first, err := c.PutSchedule(ctx, queue, "report", s)
	fatal(t, err)
	runs, err := c.NextRuns(ctx, queue, "report", 3)
	if err != nil || len(runs) != 3 || runs[0].At != first.Next {
		t.Fatal(runs, err)
	}
	state, err := c.PatchSchedule(ctx, queue, "report", map[string]any{"cron": "@daily", "tz": nil})
	if err != nil || state.Cron != "@daily" || state.TZ != "" {
		t.Error(state, err)
	}
	_, err = c.PutSchedule(ctx, queue, "other", Schedule{Every: Duration(time.Hour)})
	fatal(t, err)
	all, err := c.Schedules(ctx, queue)
	if err != nil || len(all) != 2 || all[0].Name != "other" || all[1].Name != "report" {
		t.Error(all, err)
	}
	for _, enabled := range []bool{false, true} {
		if state, err = c.EnableSchedule(ctx, queue, "other", enabled); err != nil || state.Enabled != enabled {
			t.Error(state, err)
		}
	}
	// Some builds of twheeld lack libical.
	state, err = c.PutSchedule(ctx, queue, "rule", Schedule{RRule: "FREQ=DAILY;BYHOUR=9"})
	if err == nil && state.RRule != "FREQ=DAILY;BYHOUR=9" || err != nil && code(err) != "invalid" {
		t.Error(state, err)
	}
	run, err := c.RunSchedule(ctx, queue, "report")
	fatal(t, err)
	jobs, err := c.Reserve(ctx, queue, 1, 10*time.Second, 10*time.Second)
	if err != nil || len(jobs) != 1 || jobs[0].ID != run.ID || string(jobs[0].Payload) != `"report"` {
		t.Fatal(jobs, err)
	}
	fatal(t, c.DeleteSchedule(ctx, queue, "report"))
	if _, err = c.GetSchedule(ctx, queue, "report"); code(err) != "not_found" {
		t.Error(err)
	}
}

func TestReports(t *testing.T) {
	c, queue := begin(t)
	reserve := func() *Job {
		t.Helper()
		jobs, err := c.Reserve(ctx, queue, 1, 10*time.Second, 10*time.Second)
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0]
	}
	is := func(want, got bool, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Error(got, err)
		}
	}
	put, err := c.Put(ctx, queue, Task{ID: "x", Bytes: []byte("\x00\xff"), Retry: &Retry{Limit: 9}})
	fatal(t, err)
	j := reserve()
	if !bytes.Equal(j.Bytes, []byte("\x00\xff")) || j.Version != put.Version || j.Attempt != 1 ||
		j.Key != fmt.Sprintf("%s/x/%d/%d", queue, j.Version, j.FirstDue) {
		t.Error(j)
	}
	held, err := c.Extend(ctx, j, 10*time.Second)
	is(true, held, err)
	held, err = c.Release(ctx, j)
	is(true, held, err)
	held, err = c.Ack(ctx, j)
	is(false, held, err)
	j = reserve()
	held, err = c.Nack(ctx, j, &Failure{Err: errors.New("broken"), Delay: time.Millisecond})
	is(true, held, err)
	j = reserve()
	held, err = c.Ack(ctx, j)
	is(true, held, err)
	if _, err := c.Cancel(ctx, queue, "x"); code(err) != "not_found" || j.Attempt != 2 {
		t.Error(err, j)
	}
}

func TestWork(t *testing.T) {
	c, queue := begin(t)
	ctx, stop := context.WithCancel(ctx)
	type run struct {
		id      string
		attempt int
		at      time.Time
		lost    bool
	}
	runs := make(chan run, 100)
	handle := func(ctx context.Context, j *Job) error {
		if j.ID == "long" {
			time.Sleep(3500 * time.Millisecond)
		}
		runs <- run{j.ID, j.Attempt, time.Now(), ctx.Err() != nil}
		if j.ID == "bad" && j.Attempt == 1 {
			return &Failure{Err: errors.New("broken"), Delay: 1500 * time.Millisecond}
		} else if j.ID == "bad" {
			return &Failure{Err: errors.New("beyond\x00repair"), Dead: true}
		}
		return nil
	}
	ended := make(chan error)
	for n := 0; n < 2; n++ {
		go func() { ended <- c.Work(ctx, queue, time.Second, handle) }()
	}
	_, err := c.Put(ctx, queue, Task{ID: "long"})
	fatal(t, err)
	if r := <-runs; r.id != "long" || r.attempt != 1 || r.lost {
		t.Error("the lease was not extended: ", r)
	}
	_, err = c.Put(ctx, queue, Task{ID: "bad"})
	fatal(t, err)
	first, second := <-runs, <-runs
	if second.attempt != 2 || second.at.Sub(first.at) < 1500*time.Millisecond {
		t.Error(first, second)
	}
	time.Sleep(200 * time.Millisecond)
	stop()
	for n := 0; n < 2; n++ {
		fatal(t, <-ended)
	}
	if len(runs) > 0 {
		t.Error("it ran once more: ", <-runs)
	}
	ctx = context.Background()
	if view, err := c.Get(ctx, queue, "bad"); err != nil || view.State != "dead" || view.Error != "beyond?repair" {
		t.Error("it was not given up: ", view, err)
	}
	if put, err := c.Replay(ctx, queue, "bad"); err != nil || put.Result != "replayed" {
		t.Error(put, err)
	}
}

func TestLeaseLost(t *testing.T) {
	c, queue := begin(t)
	work, stop := context.WithCancel(ctx)
	ended := make(chan error)
	began, learned := make(chan bool, 9), make(chan bool, 9)
	go func() {
		ended <- c.Work(work, queue, time.Second, func(ctx context.Context, j *Job) error {
			began <- true
			<-ctx.Done()
			learned <- work.Err() == nil
			return ctx.Err()
		})
	}()
	_, err := c.Put(ctx, queue, Task{ID: "x"})
	fatal(t, err)
	<-began
	_, err = c.Put(ctx, queue, Task{ID: "x", In: Duration(time.Hour)})
	fatal(t, err)
	if !<-learned {
		t.Error("it ended with the worker")
	}
	stop()
	fatal(t, <-ended)
}

func TestLeaseEnds(t *testing.T) {
	end := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/reserve") {
			fmt.Fprint(w, `{"tasks":[{"id":"x","token":"t"}]}`)
		} else if strings.HasSuffix(r.URL.Path, "/extend") {
			<-end // as a host that is away
		} else {
			fmt.Fprint(w, `{"tasks":[{"id":"x","result":"applied"}]}`)
		}
	}))
	defer server.Close()
	defer close(end)
	work, stop := context.WithCancel(ctx)
	defer stop()
	learned := make(chan time.Duration, 9)
	go connect(t, server.URL).Work(work, "q", time.Second, func(ctx context.Context, j *Job) error {
		begin := time.Now()
		<-ctx.Done()
		learned <- time.Since(begin)
		stop()
		return nil
	})
	select {
	case after := <-learned:
		if after < 900*time.Millisecond {
			t.Error("the lease lasts longer: ", after)
		}
	case <-time.After(10 * time.Second):
		t.Error("the lease has ended, but the handler does not learn of it")
	}
}

func TestStop(t *testing.T) {
	c, queue := begin(t)
	work, stop := context.WithCancel(ctx)
	began, ended := make(chan bool), make(chan error)
	go func() {
		ended <- c.Work(work, queue, 10*time.Second, func(ctx context.Context, j *Job) error {
			began <- true
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err())
		})
	}()
	_, err := c.Put(ctx, queue, Task{ID: "x"})
	fatal(t, err)
	<-began
	stop()
	fatal(t, <-ended)
	jobs, err := c.Reserve(ctx, queue, 1, 10*time.Second, 10*time.Second)
	if err != nil || len(jobs) != 1 || jobs[0].Attempt != 1 {
		t.Fatal("the end of a worker used up an attempt: ", jobs, err)
	}
}

func TestSilence(t *testing.T) {
	end := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer server.Close()
	defer close(end)
	c := connect(t, server.URL)
	c.Timeout, c.Deadline = 100*time.Millisecond, time.Second
	answer := make(chan error, 1)
	go func() {
		_, err := c.Put(ctx, "q", Task{})
		answer <- err
	}()
	select {
	case err := <-answer:
		if code(err) != "fate_unknown" {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for an answer that never comes")
	}
}

func TestLossy(t *testing.T) {
	c, queue := begin(t)
	lossy := os.Getenv("TWHEELD_TEST_LOSSY")
	put, err := connect(t, lossy).Put(ctx, queue, Task{In: Duration(time.Hour)})
	if err != nil || put.Result != "kept" {
		t.Error(put, err)
	}
	_, err = connect(t, lossy).Put(ctx, queue, Task{ID: "once", IfExists: "fail"})
	if code(err) != "fate_unknown" {
		t.Error(err)
	}
	jobs, err := connect(t, lossy).Reserve(ctx, queue, 1, 10*time.Second, 10*time.Second)
	if err != nil || len(jobs) != 1 || jobs[0].ID != "once" {
		t.Fatal(jobs, err)
	}
	if held, err := connect(t, lossy).Ack(ctx, jobs[0]); err != nil || !held {
		t.Error("applied before its answer was lost: ", held, err)
	}
	if _, err = c.Cancel(ctx, queue, "once"); code(err) != "not_found" {
		t.Error(err)
	}
}

func TestServerWords(t *testing.T) {
	var times []time.Time
	answers := []struct {
		status      int
		after, body string
	}{
		{503, "", `{"error":{"code":"store_down","message":"because"}}`},
		{429, "2", `{"error":{"code":"queue_full","message":"because"}}`},
		{200, "", `{"state":"scheduled"}`},
		{403, "", `{"error":{"code":"forbidden","message":"because"}}`},
		{200, "", `hello`},
		{502, "", `<h1>Bad Gateway</h1>`},
		{504, "", ``},
		{200, "", `{"state":"scheduled"}`},
		{502, "", ``},
		{503, "60", `{"error":{"code":"stopping","message":"because"}}`},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[len(times)]
		times = append(times, time.Now())
		if answer.after != "" {
			w.Header().Set("Retry-After", answer.after)
		}
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			answer.status = 401
		}
		w.WriteHeader(answer.status)
		fmt.Fprint(w, answer.body)
	}))
	defer server.Close()
	c, err := New(server.URL, "t0ken")
	fatal(t, err)
	c.Deadline = 10 * time.Millisecond
	if _, err = c.Cancel(ctx, "q", "x"); !strings.Contains(fmt.Sprint(err), "certificate") {
		t.Error(err)
	}
	c.HTTP, c.Deadline = server.Client(), 30*time.Second
	state, err := c.Cancel(ctx, "q", "x")
	if err != nil || state != "scheduled" || len(times) != 3 || times[2].Sub(times[1]) < 2*time.Second {
		t.Error(state, err, times)
	}
	for _, want := range []string{"forbidden", "internal", "<nil>"} {
		if _, err = c.Cancel(ctx, "q", "x"); code(err) != want {
			t.Error(want, err)
		}
	}
	// What a proxy lost may have been done.
	if _, err = c.RunSchedule(ctx, "q", "x"); code(err) != "fate_unknown" {
		t.Error(err)
	}
	if _, err = c.Cancel(ctx, "q", "x"); code(err) != "stopping" {
		t.Error(err)
	}
	if len(times) != len(answers) {
		t.Error(times)
	}
}

func TestAway(t *testing.T) {
	c := connect(t, "127.0.0.1:1")
	c.Deadline = time.Second
	_, err := c.Put(ctx, "q", Task{})
	if code(err) != "unreachable" {
		t.Error(err)
	}
	c.Deadline = time.Hour
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err = c.Put(short, "q", Task{}); err != context.DeadlineExceeded {
		t.Error(err)
	}
	// Nor does the context wait for what twheeld asks for.
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	c = connect(t, busy.URL)
	c.Deadline = time.Hour
	short, stop = context.WithTimeout(ctx, time.Second)
	defer stop()
	begin := time.Now()
	if _, err = c.Put(short, "q", Task{}); err != context.DeadlineExceeded || time.Since(begin) > 30*time.Second {
		t.Error(err, time.Since(begin))
	}
	for _, server := range []string{"ftp://x", "http://", "https:///v1"} {
		if _, err := New(server, ""); err == nil {
			t.Error(server)
		}
	}
}
