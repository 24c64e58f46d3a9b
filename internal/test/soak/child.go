package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
)

// task is what a child has to do.
type task struct {
	Dir           string
	Seed          uint64
	Session, Keys int
	Done          [workers]uint64
	LongestStall  time.Duration
}

// A child says with one byte each what happened: the worker, from '0', whose batch was acknowledged, or a stall.
const stallByte = 's'

// RunChild opens the database and works until it is killed. It returns only with an error.
func RunChild(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(what byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = os.Stdout.Write([]byte{what}) // without a parent there is nothing to do
	}
	var stalls stallCount
	d, err := db.Open(t.Dir, options(t.Seed, t.Session, t.Keys, func(i db.WriteStallInfo) {
		stalls.add(i)
		say(stallByte)
		if err := stalls.judge(t.LongestStall); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}))
	if err != nil {
		return err
	}
	models := newModels(t.Seed, t.Keys)
	got, err := readAll(d, t.Keys) // the parent compared it with what must be there
	if err != nil {
		return err
	}
	for w, m := range models {
		m.done = t.Done[w]
		copy(m.versions, got[w])
	}
	err = work(context.Background(), d, models, t.Session, new(atomic.Uint64), func(w int) { say('0' + byte(w)) })
	return errors.Join(err, errors.New("the child ended by itself"))
}

// killedSession lets a child work and kills it: at once, most likely while it
// opens, or when the time is over and it has acknowledged something.
func (r *run) killedSession(session int, length time.Duration) error {
	d, err := r.open(session) // the child takes for true what it finds
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	t := task{Dir: r.Dir, Seed: r.Seed, Session: session, Keys: r.Keys, LongestStall: r.LongestStall}
	for w, m := range r.models {
		t.Done[w] = m.done
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	child := r.Child(string(text))
	var complaint bytes.Buffer
	child.Stderr = &complaint
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	kill := func() { _ = child.Process.Kill() } // fails where it has ended; then it complains
	if r.rnd.IntN(4) == 0 {
		defer time.AfterFunc(min(length, 100*time.Millisecond), kill).Stop()
	}
	r.hear(out, r.rnd.IntN(2000), time.Now().Add(length), kill)
	if err := child.Wait(); err == nil || complaint.Len() > 0 {
		return fmt.Errorf("the child: %s", complaint.String())
	}
	r.killed = true
	r.kills++
	return nil
}

// hear follows what a child says and kills it when it has acknowledged the
// number of batches, and not before the time. What it said before it died counts.
func (r *run) hear(out io.Reader, goal int, until time.Time, kill func()) {
	said := bufio.NewReader(out)
	for heard := 0; ; {
		what, err := said.ReadByte()
		if err != nil {
			return
		}
		if what == stallByte {
			r.stalls.count.Add(1)
			continue
		}
		r.models[what-'0'].advance()
		r.ops.Add(1)
		r.batches.Add(1)
		heard++
		if heard >= goal && time.Now().After(until) {
			kill()
		}
	}
}
