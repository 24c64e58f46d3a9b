package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Node is a running node. It implements kv.Cluster. Its methods may be called from any goroutine.
type Node struct {
	o        Options
	addr     string // for others
	process  string // of this Node and no other, also none on the same directory
	lock     io.Closer
	wire     *wire.Listener
	shared   *db.Resources
	handlers map[string]handler // fixed before the first call
	atlas    *atlas
	logs     logs
	places   []*place // of each group, fixed once the map is known
	ready    chan struct{}
	started  time.Time

	full     atomic.Bool // the disk is
	closing  atomic.Bool
	work     sync.WaitGroup
	stop     context.CancelFunc
	failures chan struct{} // wakes the healer
	backups  backups
	scrub    scrubber

	vitals        vitals
	recollections recollections

	done chan struct{} // closed when the node cannot go on

	identity atomic.Pointer[identity] // nil before the node has joined

	mu    sync.Mutex // guards the following, and changes of identity
	ended error      // why done is closed
}

// Start opens a node's directory and joins a cluster, or continues as a node of one. ctx bounds the start, not the
// node's life.
func Start(ctx context.Context, o Options) (*Node, error) {
	o.fillDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		o: o, process: rand.Text(), handlers: map[string]handler{}, atlas: newAtlas(), ready: make(chan struct{}), started: time.Now(),
		failures: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.release())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	if err := n.openDir(); err != nil {
		return err
	}
	if err := n.listen(); err != nil {
		return err
	}
	if err := n.findIdentity(ctx); err != nil {
		return err
	}
	if err := n.introduce(ctx); err != nil {
		return err
	}
	if err := n.openShared(); err != nil {
		return err
	}
	if err := n.logs.open(n); err != nil {
		if !isDamage(err) || len(n.atlas.chart().Nodes) < 2 {
			return err
		}
		n.o.Logger.Error("the log of the node is damaged: it will join again", "err", err)
	}
	n.openPlaces()
	close(n.ready)
	if id := n.identity.Load(); id.Bootstrap {
		if err := n.storeFirstMap(ctx, id.Map); err != nil {
			return err
		}
		if err := n.changeIdentity(func(id *identity) { id.Bootstrap = false }); err != nil {
			return err
		}
	}
	var running context.Context
	running, n.stop = context.WithCancel(context.Background())
	for _, loop := range []func(context.Context){n.gossipLoop, n.placementLoop, n.healLoop, n.spaceLoop, n.pulseLoop, n.watchRemoval, n.measureLoop, n.scrubLoop, n.scrubHealLoop, n.countLoop} {
		n.work.Go(func() { loop(running) })
	}
	n.wire.Loaded()
	return nil
}

// openDir creates the directory if needed, and locks it.
func (n *Node) openDir() (err error) {
	if err := refuseMissing(&n.o); err != nil {
		return err
	}
	if n.lock, err = lockDir(n.o.FS, n.o.Dir); err != nil {
		return err
	}
	if err := refuseUnfinished(n.o.FS, n.o.Dir); err != nil {
		return err
	}
	id, err := readIdentity(n.o.FS, n.o.Dir)
	if err != nil || id == nil {
		return err
	}
	if id.ID != n.o.ID {
		return fmt.Errorf("%s belongs to node %s, not to node %s", n.o.Dir, id.ID, n.o.ID)
	}
	n.identity.Store(id)
	if err := n.refuseRemoved(); err != nil {
		return err
	}
	if id.RolledBack {
		return n.rolledBack(ErrRolledBack)
	}
	return nil
}

// findIdentity reads who this node is, or joins a cluster. The node listens already: a start that fails before is none.
func (n *Node) findIdentity(ctx context.Context) error {
	if n.identity.Load() != nil {
		if err := n.count(); err != nil {
			return err
		}
		if err := n.placeFirst(); err != nil {
			return err
		}
		m := n.identity.Load().Map
		n.atlas.learn(m)
		return n.refuseTwins(ctx, m)
	}
	j, err := n.join(ctx, joinRequest{ID: n.o.ID, Addr: n.addr, Zone: n.o.Zone, Process: n.process})
	if err != nil {
		return err
	}
	n.atlas.learn(j.Map)
	id := &identity{Cluster: j.Map.Cluster, ID: n.o.ID, Incarnation: j.Member.Incarnation, Start: wire.Start{}.Next(), Map: j.Map}
	if err := id.write(n.o.FS, n.o.Dir); err != nil {
		return err
	}
	n.identity.Store(id)
	n.wire.SetIdentity(id.Cluster, id.Incarnation, id.Start)
	return nil
}

// refuseTwins returns an error if another process, with a copy of this node's directory, still answers at the address
// that a map has. Both would vote as the same server of raft.
func (n *Node) refuseTwins(ctx context.Context, m *Map) error {
	known, found := m.Find(n.o.ID)
	if found && known.Addr != n.addr && n.answers(ctx, known.Addr, n.o.ID, n.process) {
		return fmt.Errorf("%w at %s, and this node has the same directory or a copy of it", errIDInUse, known.Addr)
	}
	return nil
}

// changeIdentity changes what the node knows about itself, and makes that durable before others learn of it. change
// replaces maps.
func (n *Node) changeIdentity(change func(id *identity)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.identity.Load()
	changed := *before
	changed.Hosted = slices.Clone(before.Hosted)
	if change(&changed); reflect.DeepEqual(changed, *before) {
		return nil
	}
	if err := changed.write(n.o.FS, n.o.Dir); err != nil {
		return err
	}
	n.identity.Store(&changed)
	if (changed.Incarnation != before.Incarnation || changed.Start.Number != before.Start.Number) && n.wire != nil {
		n.wire.SetIdentity(changed.Cluster, changed.Incarnation, changed.Start)
	}
	return nil
}

// openShared makes what all databases of the node share: those of the groups and that of the logs.
func (n *Node) openShared() (err error) {
	groups := n.atlas.chart().Groups
	stores := 2*groups + 2 // a state that is being replaced is open twice for a moment
	n.shared, err = db.NewResources(db.ResourcesOptions{
		MaxStores: stores, CacheSize: n.o.Memory.Cache, MemtableSize: n.o.Memory.Memtables,
		MaxOpenFiles: openFiles(n.o.Memory.OpenFiles, stores, vfs.MaxDescriptors()), MaxConcurrent: n.o.Memory.Compactions,
	})
	return err
}

// openFiles returns how many tables of some databases may be open. Its default is a quarter of the descriptors, because
// up to half of them may be connections, and merges, iterators and logs open files as well.
func openFiles(configured, stores, descriptors int) int {
	if configured != 0 || descriptors <= 0 {
		return configured
	}
	return max(10*stores, min(descriptors/4, 10_000))
}

// self describes this node as the map should.
func (n *Node) self() Member {
	member := Member{ID: n.o.ID, Addr: n.addr, Zone: n.o.Zone}
	if id := n.identity.Load(); id != nil {
		member.Incarnation = id.Incarnation
	}
	return member
}

func (n *Node) clusterName() string {
	if id := n.identity.Load(); id != nil {
		return id.Cluster
	}
	return ""
}

// Addr is the address of the node for clients and other nodes.
func (n *Node) Addr() string { return n.addr }

// Clients accepts the connections of clients.
func (n *Node) Clients() net.Listener { return n.wire.Clients() }

// callTimeout bounds a control call that does no work.
func (n *Node) callTimeout() time.Duration { return max(n.o.Timing.Gossip, n.o.Timing.Heartbeat) * 2 }

// every calls f at each interval until ctx ends.
func (n *Node) every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// pulseLoop notices that this process stood still.
func (n *Node) pulseLoop(ctx context.Context) {
	n.every(ctx, min(n.o.Timing.Gossip, n.o.Timing.DeadAfter/4), n.pulse)
}

func (n *Node) pulse() { n.atlas.pulse(time.Now(), n.o.Timing.DeadAfter/2) }

func (n *Node) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close moves the node's leaderships to other nodes, as far as these answer, and stops.
func (n *Node) Close() error {
	if n.closing.Swap(true) {
		return nil
	}
	n.HandOver()
	n.stop()
	n.work.Wait()
	return n.release()
}

// release closes what start has opened.
func (n *Node) release() (err error) {
	n.closing.Store(true) // no replica is opened any more
	for _, p := range n.places {
		err = errors.Join(err, p.close(kv.ErrClosed))
	}
	err = errors.Join(err, n.logs.close(kv.ErrClosed))
	if n.wire != nil {
		err = errors.Join(err, n.wire.Close())
	}
	if n.lock != nil {
		err = errors.Join(err, n.lock.Close())
	}
	return err
}
