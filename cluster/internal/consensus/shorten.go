package consensus

import (
	"context"
	"errors"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

const (
	// shortenInterval is the time between looks at the size of the log, which is an addition when nothing was stored.
	shortenInterval = time.Second
	// minTrailing is how many entries remain however long they are.
	minTrailing = 16
)

// shortenLoop takes a snapshot when the entries since the last one have many bytes. Raft counts entries only, and ten
// thousand of them may be anything between a MiB and 600 GiB.
func (g *Group) shortenLoop() {
	defer g.wg.Done()
	ticker := time.NewTicker(shortenInterval)
	defer ticker.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-ticker.C:
		case <-g.dead:
			return
		}
		if err := g.shorten(ctx); err != nil && !errors.Is(err, kv.ErrClosed) {
			g.o.Logger.Warn("the log could not be shortened yet", "error", err)
		}
	}
}

// shorten takes a snapshot if the entries since the last one have more than MaxLogBytes. About as many bytes remain, at
// most TrailingLogs entries.
func (g *Group) shorten(ctx context.Context) error {
	g.logs.shortening.Lock()
	defer g.logs.shortening.Unlock()
	entries, bytes := g.logs.entries.Load(), g.logs.bytes.Load()
	if bytes < g.o.MaxLogBytes && entries < g.config.SnapshotThreshold {
		return nil
	}
	r := g.raft.Load()
	config := r.ReloadableConfig()
	config.TrailingLogs = min(g.config.TrailingLogs, max(minTrailing, g.o.MaxLogBytes*entries/max(bytes, 1)))
	if err := r.ReloadConfig(config); err != nil {
		return err
	}
	if bytes >= g.o.MaxLogBytes { // otherwise raft takes one by itself
		if err := g.Snapshot(ctx); err != nil {
			return err
		}
	}
	g.logs.entries.Add(-entries)
	g.logs.bytes.Add(-bytes)
	return nil
}
