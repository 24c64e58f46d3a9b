package node

import (
	"context"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
)

const (
	// sampleEvery is the time between two samples, sampleWindow the age of the oldest one: rates are of the time since.
	sampleEvery, sampleWindow = time.Second, 10 * time.Second
	// measureEvery is how often the directories of the databases are listed for their sizes.
	measureEvery = 30 * time.Second
	// maxDamage is how many damaged files the figures name, which travel with the news.
	maxDamage = 16
)

// vitals measures what the node says about itself. It does so only when somebody asks, which is at each exchange of
// news. Its methods may be called from any goroutine.
type vitals struct {
	mu      sync.Mutex
	clients func() (commands, clients int64) // nil before the server has started
	samples []sample                         // the oldest first

	used atomic.Int64 // bytes of the databases
}

// sample has counts at one moment.
type sample struct {
	at       time.Time
	commands int64
	fsyncs   report.LatencyHistogram
}

// SetClients says where the counts of clients and of their commands since the start come from.
func (n *Node) SetClients(counts func() (commands, clients int64)) {
	n.vitals.mu.Lock()
	defer n.vitals.mu.Unlock()
	n.vitals.clients = counts
}

// Figures returns what the node says about itself.
func (n *Node) Figures() overview.Figures {
	v := &n.vitals
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	f := overview.Figures{
		Version: overview.Version(), UptimeSeconds: int64(now.Sub(n.started).Seconds()),
		DiskReserveBytes: n.o.Space.Reserve,
		MemoryBytes:      memory(),
	}
	if free, err := n.o.Space.Free(n.o.Dir); err == nil {
		f.DiskFreeBytes = free
	}
	if err := n.logs.err(); err != nil {
		f.Log = err.Error()
	}
	f.DiskUsedBytes = v.used.Load()
	f.Damage = n.scrub.problems()
	f.Damage = f.Damage[:min(len(f.Damage), maxDamage)]
	s := sample{at: now}
	if v.clients != nil {
		s.commands, f.Clients = v.clients()
	}
	if d := n.logs.database(); d != nil {
		s.fsyncs = d.Metrics().Latency.Fsync
	}
	first := v.since(s)
	if passed := s.at.Sub(first.at).Seconds(); passed > 0 {
		f.CommandsPerSecond = max(0, float64(s.commands-first.commands)/passed)
	}
	recent := newer(&s.fsyncs, &first.fsyncs)
	f.FsyncP99Us = recent.Quantile(0.99).Microseconds()
	return f
}

// since notes a sample, and returns the oldest one that is kept. v.mu must be locked.
func (v *vitals) since(s sample) sample {
	for len(v.samples) > 1 && s.at.Sub(v.samples[1].at) >= sampleWindow {
		v.samples = v.samples[1:]
	}
	if len(v.samples) == 0 || s.at.Sub(v.samples[len(v.samples)-1].at) >= sampleEvery {
		v.samples = append(v.samples, s)
	}
	return v.samples[0]
}

// newer returns what a histogram has measured since an earlier one. If it has measured less, it is of another database,
// and all of it is newer.
func newer(now, before *report.LatencyHistogram) report.LatencyHistogram {
	if now.Count < before.Count {
		return *now
	}
	old := map[time.Duration]uint64{}
	for _, b := range before.Buckets {
		old[b.From] = b.Count
	}
	h := report.LatencyHistogram{Count: now.Count - before.Count, Sum: now.Sum - before.Sum}
	for _, b := range now.Buckets {
		if b.Count -= min(old[b.From], b.Count); b.Count > 0 {
			h.Buckets = append(h.Buckets, b)
		}
	}
	return h
}

// measureLoop measures the databases, often after the start, when a node gets its replicas, and then now and then. It
// may wait for a state that is being replaced, as nothing else here.
func (n *Node) measureLoop(ctx context.Context) {
	wait := time.Second
	for n.sleep(ctx, wait) == nil {
		n.vitals.used.Store(n.usedBytes())
		wait = min(2*wait, measureEvery)
	}
}

// usedBytes returns the sizes of all databases of this node, 0 if no replica works.
func (n *Node) usedBytes() (bytes int64) {
	running := n.running()
	if len(running) == 0 {
		return 0
	}
	add := func(d *db.DB) error {
		usage, err := d.DiskUsage()
		bytes += int64(usage.Total)
		return err
	}
	if d := n.logs.database(); d != nil {
		_ = add(d) // it is being closed
	}
	for _, h := range running {
		_ = h.state.WithDB(add)
	}
	return bytes
}

// memory returns how many bytes Go's runtime has from the system. Mapped files are not included.
func memory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// recollections are what other nodes said last. Its methods may be called from any goroutine.
type recollections struct {
	mu  sync.Mutex
	all map[kv.NodeID]recollection
}

// recollection is what a node said last: its figures, which come with news too, and its replicas.
type recollection struct {
	figures   *overview.Figures
	figuresAt time.Time
	view      *viewReply
	viewAt    time.Time
}

// noteFigures remembers what a node said at some time.
func (r *recollections) noteFigures(id kv.NodeID, f *overview.Figures, at time.Time) {
	r.change(id, func(c *recollection) {
		if f != nil && at.After(c.figuresAt) {
			c.figures, c.figuresAt = f, at
		}
	})
}

// noteView remembers what a node said at some time.
func (r *recollections) noteView(id kv.NodeID, v *viewReply, at time.Time) {
	r.noteFigures(id, &v.Figures, at)
	r.change(id, func(c *recollection) {
		if at.After(c.viewAt) {
			c.view, c.viewAt = v, at
		}
	})
}

func (r *recollections) change(id kv.NodeID, f func(*recollection)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[kv.NodeID]recollection{}
	}
	c := r.all[id]
	f(&c)
	r.all[id] = c
}

func (r *recollections) of(id kv.NodeID) recollection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

// keep forgets the nodes that are not in a map.
func (r *recollections) keep(m *Map) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.all {
		if _, found := m.Find(id); !found {
			delete(r.all, id)
		}
	}
}
