package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Workload is clients that send commands until they are stopped.
type Workload struct {
	Seed    uint64
	Clients int
	// Think is the mean time between a reply and the next command of a client.
	Think time.Duration
	// Dial opens connections to the nodes that Know names.
	Dial dialer
	// Kinds are those that clients use. Default: all.
	Kinds []kind
	// Tags is how many tags of a kind are in use at a time. Default: 2.
	Tags int

	History *History

	last    atomic.Int64 // the last value that was given out
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// These are guarded by mu.
	round int
	all   []tag
	now   []tag // those that clients use
	nodes []string
	stay  string        // the node that every other client asks, whatever it answers
	awake chan struct{} // closed when clients continue; nil: they are not paused
}

// kind is what clients do with a tag.
type kind int

const (
	registers kind = iota
	lists
	counters
	maps
	mortals
	optimists  // transactions that watch what they have read
	conditions // commands that often write nothing, so that they end without an entry of the log
	pipelines  // conditions behind a long command on another tag, in one pipeline
)

var allKinds = []kind{registers, lists, counters, maps, mortals, optimists, conditions, pipelines}

type tag struct {
	name string
	kind kind
}

// Start lets the clients begin.
func (w *Workload) Start() {
	if w.History == nil {
		w.History = newHistory()
	}
	if w.Kinds == nil {
		w.Kinds = allKinds
	}
	if w.Tags == 0 {
		w.Tags = 2
	}
	w.Renew()
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	for id := range w.Clients {
		c := newClient(id, rand.New(rand.NewPCG(w.Seed, uint64(id))), w.History, w.Dial, w.known)
		if id%2 == 1 {
			c.stays = w.stays
		}
		c.pause = w.paused
		w.running.Go(func() {
			defer c.close()
			for ctx.Err() == nil {
				w.next(context.Background(), c)
				w.paused()
				time.Sleep(time.Duration(c.rnd.ExpFloat64() * float64(w.Think)))
			}
		})
	}
}

// Renew replaces the tags that clients use.
func (w *Workload) Renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.round++
	w.now = nil
	for _, k := range w.Kinds {
		for i := range w.Tags {
			w.now = append(w.now, tag{fmt.Sprintf("%d-%d-%d", w.round, k, i), k})
		}
	}
	w.all = append(w.all, w.now...)
}

// Know names the nodes that clients ask if no reply has shown them a better one. A cluster whose nodes are replaced
// has other nodes later.
func (w *Workload) Know(nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = nodes
}

func (w *Workload) known() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes
}

// Stay lets every other client ask one node only, as if it did not get the news that another one leads, until it is
// called with "".
func (w *Workload) Stay(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stay = addr
}

func (w *Workload) stays() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stay
}

// Pause stops all clients where they are, also those whose requests are on their way, until the function that it
// returns is called.
func (w *Workload) Pause() (resume func()) {
	awake := make(chan struct{})
	w.mu.Lock()
	w.awake = awake
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.awake = nil
		w.mu.Unlock()
		close(awake)
	}
}

// paused waits while clients are paused, and reports whether they were.
func (w *Workload) paused() bool {
	w.mu.Lock()
	awake := w.awake
	w.mu.Unlock()
	if awake == nil {
		return false
	}
	<-awake
	return true
}

// Stop lets the clients end their commands and waits for that.
func (w *Workload) Stop() {
	w.stop()
	w.running.Wait()
}

func (w *Workload) pick(rnd *rand.Rand) tag {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now[rnd.IntN(len(w.now))]
}

// value returns one that was never written. Its ends make it findable in longer ones.
func (w *Workload) value() string { return fmt.Sprintf("<%d>", w.last.Add(1)) }

// next performs a command that is drawn for a tag that is drawn.
func (w *Workload) next(ctx context.Context, c *client) {
	t := w.pick(c.rnd)
	switch t.kind {
	case registers:
		w.register(ctx, c, t.name)
	case lists:
		w.list(ctx, c, t.name)
	case counters:
		cmd := command{verb: doIncr, key: c.rnd.IntN(2)}
		if c.rnd.IntN(2) == 0 {
			cmd.verb = doGet
		}
		c.do(ctx, input{t.name, []command{cmd}}, c.one)
	case maps:
		w.mapping(ctx, c, t.name)
	case mortals:
		w.mortal(ctx, c, t.name)
	case optimists:
		read, write := c.rnd.IntN(width), c.rnd.IntN(width)
		c.watched(ctx, t.name, command{verb: doGet, key: read}, command{verb: doSet, key: write, arg: w.value()})
	case conditions:
		c.do(ctx, input{t.name, []command{w.condition(c.rnd)}}, c.one)
	case pipelines:
		commands := make([]command, 1+c.rnd.IntN(4))
		for i := range commands {
			commands[i] = w.condition(c.rnd)
		}
		c.pipeline(ctx, w.pick(c.rnd).name, t.name, commands)
	}
}

// condition returns a command whose effect depends on whether its key exists. Half of them write nothing.
func (w *Workload) condition(rnd *rand.Rand) command {
	cmd := command{key: rnd.IntN(width), verb: doGet}
	switch p := rnd.IntN(16); {
	case p < 3:
		cmd.verb, cmd.arg = doSet, w.value()
	case p < 6:
		cmd.verb = doDel
	case p < 9:
		cmd.verb, cmd.arg = doSetNX, w.value()
	case p < 12:
		cmd.verb, cmd.arg = doSetXX, w.value()
	case p < 14:
		cmd.verb, cmd.old, cmd.arg = doCAS, w.value(), w.value() // which the key never had
	case p < 15:
		cmd.verb, cmd.old = doDelIf, w.value()
	}
	return cmd
}

func (w *Workload) register(ctx context.Context, c *client, tag string) {
	cmd := command{verb: doGet}
	switch p := c.rnd.IntN(20); {
	case p < 6:
		cmd.verb, cmd.arg = doSet, w.value()
	case p < 7:
		cmd.verb = doDel
	case p < 8:
		cmd.verb, cmd.arg = doSetNX, w.value()
	case p < 12:
		// What a CAS expects is what a read has just found: mostly it is still there.
		found, ok := c.do(ctx, input{tag, []command{cmd}}, c.one)
		if !ok || found[0] == absent {
			return
		}
		cmd = command{verb: doCAS, old: string(found[0][1:]), arg: w.value()}
		if p == 11 {
			cmd = command{verb: doDelIf, old: cmd.old}
		}
	}
	c.do(ctx, input{tag, []command{cmd}}, c.one)
}

func (w *Workload) list(ctx context.Context, c *client, tag string) {
	switch p := c.rnd.IntN(10); {
	case p < 4:
		c.do(ctx, input{tag, []command{{verb: doAppend, key: c.rnd.IntN(2), arg: w.value()}}}, c.one)
	case p < 6:
		both := []command{{verb: doAppend, key: 0, arg: w.value()}, {verb: doAppend, key: 1, arg: w.value()}}
		c.do(ctx, input{tag, both}, c.transaction)
	default:
		c.do(ctx, input{tag, []command{{verb: doGet, key: c.rnd.IntN(2)}}}, c.one)
	}
}

func (w *Workload) mapping(ctx context.Context, c *client, tag string) {
	a, b := c.rnd.IntN(width), c.rnd.IntN(width)
	set := func(key int) command { return command{verb: doSet, key: key, arg: w.value()} }
	switch p := c.rnd.IntN(20); {
	case p < 4:
		c.do(ctx, input{tag, []command{set(a)}}, c.one)
	case p < 5:
		c.do(ctx, input{tag, []command{{verb: doDel, key: a}}}, c.one)
	case p < 8:
		c.do(ctx, input{tag, []command{{verb: doGet, key: a}, set(b), {verb: doGet, key: b}, set(a)}}, c.transaction)
	case p < 9:
		c.do(ctx, input{tag, []command{{verb: doDel, key: a}, set(b), {verb: doRange}}}, c.transaction)
	case p < 10:
		c.do(ctx, input{tag, []command{{verb: doGet, key: a}, {verb: doGet, key: b}}}, c.transaction)
	case p < 14:
		c.do(ctx, input{tag, []command{{verb: doRev}}}, c.one)
	default:
		c.do(ctx, input{tag, []command{{verb: doRange}}}, c.one)
	}
}

func (w *Workload) mortal(ctx context.Context, c *client, tag string) {
	cmd := command{verb: doGet}
	switch p := c.rnd.IntN(10); {
	case p < 3:
		cmd.verb, cmd.arg = doSetMort, w.value()
	case p < 4:
		cmd.verb = doDel
	}
	c.do(ctx, input{tag, []command{cmd}}, c.one)
}

// ReadAll reads all keys that the clients have used, after the faults are healed. It fails if the cluster does not
// answer until ctx ends.
func (w *Workload) ReadAll(ctx context.Context) error {
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	c := newClient(w.Clients, rand.New(rand.NewPCG(w.Seed, uint64(w.Clients))), w.History, w.Dial, w.known)
	defer c.close()
	for _, t := range all {
		commands, try := []command{{verb: doRange}}, c.one
		if t.kind == mortals {
			commands[0].verb = doGet
		}
		for ok := false; !ok; {
			if ctx.Err() != nil {
				return errors.New("the cluster did not answer although all faults are healed")
			}
			_, ok = c.do(ctx, input{t.name, commands}, try)
		}
	}
	return nil
}
