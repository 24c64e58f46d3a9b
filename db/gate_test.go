package db

import (
	"path/filepath"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// gate blocks the creation of tables while it is closed.
type gate struct {
	closed  atomic.Bool
	arrived chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{arrived: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) fs() vfs.FS { return wrap.NewFaulty(vfs.NewMem(), g.hook) }

func (g *gate) hook(op wrap.Op) *wrap.Fault {
	if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && g.closed.Load() {
		g.arrived <- struct{}{}
		<-g.open
	}
	return nil
}
