package recorder

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/internal/disk/wrap"
)

// Trace is a recorded run.
type Trace struct {
	start Image
	Ops   []Op
	data  [][]byte // by Op.file: all bytes ever written to the file
}

// String describes the operation for the report of a failure.
func (o Op) String() string {
	switch o.Kind {
	case wrap.OpRename, wrap.OpLink:
		return fmt.Sprintf("%v %s to %s", o.Kind, o.Name, o.NewName)
	case wrap.OpWrite:
		return fmt.Sprintf("%v %d bytes at %d of %s", o.Kind, o.Length, o.Offset, o.Name)
	case wrap.OpReserve:
		return fmt.Sprintf("reserve %d bytes at %d of %s", o.Length, o.Offset, o.Name)
	}
	return fmt.Sprintf("%v %s", o.Kind, o.Name)
}

// At describes a cut by the operations before and after it.
func (t *Trace) At(cut int) string {
	describe := func(i int) string {
		if i < 0 || i >= len(t.Ops) {
			return "nothing"
		}
		return t.Ops[i].String()
	}
	return fmt.Sprintf("cut %d of %d, after %q, before %q", cut, len(t.Ops), describe(cut-1), describe(cut))
}

// FilesNamed calls f for each file that was created under a name with that extension, in the order of
// creation. data has all bytes ever written to the file.
func (t *Trace) FilesNamed(ext string, f func(name string, data []byte)) {
	for _, op := range t.Ops {
		if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ext {
			f(op.Name, t.data[op.file])
		}
	}
}

// node is a file or directory on the disk of a Cursor.
type node struct {
	// entries and durable are the names of a directory now and as of the last SyncDir; nil for
	// a file. pending are the changes between the two.
	entries, durable map[string]*node
	pending          []change

	data            []byte // all bytes of the file, including those that are written later
	written, synced int    // the number of bytes written and durable at the cut
	lastWrite       int    // the last operation that wrote to the file, -1 if there is none
	lastOffset      int    // the offset of that write

	// reserved is the length of a log of CreateLog, with zeros behind the bytes written, and 0 once it is cut.
	// syncedReserved is what it was at the last sync.
	log                      bool
	reserved, syncedReserved int
}

// change is one unsynced change of a directory. Each name in it gets the node, or is removed if the
// node is nil, and all names change together.
type change map[string]*node

func newDir() *node { return &node{entries: map[string]*node{}, durable: map[string]*node{}} }

func newFile(data []byte) *node { return &node{data: data, lastWrite: -1} }

func (n *node) isDir() bool { return n.entries != nil }

func (n *node) apply(c change) {
	n.pending = append(n.pending, c)
	set(n.entries, c)
}

func set(entries map[string]*node, c change) {
	for name, to := range c {
		if to == nil {
			delete(entries, name)
		} else {
			entries[name] = to
		}
	}
}

func (n *node) syncDir() {
	if len(n.pending) > 0 {
		n.durable, n.pending = maps.Clone(n.entries), nil
	}
}

// Cursor moves through a trace and has the disk at its cut. It is used by one goroutine at a time, but
// a trace may have several cursors.
type Cursor struct {
	trace *Trace
	cut   int
	root  *node
	files []*node // by Op.file
}

// Cursor returns a cursor at cut 0.
func (t *Trace) Cursor() *Cursor {
	c := &Cursor{trace: t, root: newDir(), files: make([]*node, len(t.data))}
	for _, d := range t.start.Dirs {
		c.mkdirAll(d)
	}
	for _, f := range t.start.Files {
		n := newFile(f.Data)
		n.written, n.synced = len(f.Data), len(f.Data)
		dir, name := c.parent(f.Path)
		dir.apply(change{name: n})
	}
	c.syncAll(c.root)
	return c
}

func (c *Cursor) syncAll(n *node) {
	n.syncDir()
	for _, child := range n.entries {
		if child.isDir() {
			c.syncAll(child)
		}
	}
}

// Cut returns the number of operations done.
func (c *Cursor) Cut() int { return c.cut }

// Seek moves forward to the cut.
func (c *Cursor) Seek(cut int) {
	for c.cut < cut && c.Next() {
	}
}

// Next does the next operation and reports whether there was one.
func (c *Cursor) Next() bool {
	if c.cut == len(c.trace.Ops) {
		return false
	}
	op := c.trace.Ops[c.cut]
	c.cut++
	switch op.Kind {
	case wrap.OpMkdirAll:
		c.mkdirAll(op.Name)
	case wrap.OpSyncDir:
		c.dir(op.Name).syncDir()
	case wrap.OpCreate:
		n := newFile(c.trace.data[op.file])
		c.files[op.file] = n
		dir, name := c.parent(op.Name)
		dir.apply(change{name: n})
	case wrap.OpWrite:
		n := c.files[op.file]
		n.lastWrite, n.lastOffset, n.written = c.cut-1, op.Offset, op.Offset+op.Length
	case wrap.OpSync:
		n := c.synced(op)
		n.synced, n.syncedReserved = n.written, n.reserved
	case wrap.OpReserve:
		n := c.files[op.file]
		n.log, n.reserved = true, op.Offset+op.Length
	case wrap.OpCut:
		c.files[op.file].reserved = 0
	case wrap.OpRemove:
		dir, name := c.parent(op.Name)
		dir.apply(change{name: nil})
	case wrap.OpRename, wrap.OpLink:
		c.rename(op)
	}
	return true
}

// synced returns the file of a sync.
func (c *Cursor) synced(op Op) *node {
	if op.file != byName {
		return c.files[op.file]
	}
	dir, name := c.parent(op.Name)
	return dir.entries[name]
}

func (c *Cursor) rename(op Op) {
	from, oldName := c.parent(op.Name)
	to, newName := c.parent(op.NewName)
	n := from.entries[oldName]
	switch {
	case op.Kind == wrap.OpLink:
		to.apply(change{newName: n})
	case to.entries[newName] == n: // the old name stays if both name the same file
	case from == to:
		to.apply(change{oldName: nil, newName: n})
	default:
		from.apply(change{oldName: nil})
		to.apply(change{newName: n})
	}
}

func split(name string) []string {
	clean := path.Clean("/" + filepath.ToSlash(name))
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

func (c *Cursor) mkdirAll(name string) {
	n := c.root
	for _, e := range split(name) {
		if n.entries[e] == nil {
			n.apply(change{e: newDir()})
		}
		n = n.entries[e]
	}
}

func (c *Cursor) dir(name string) *node {
	n := c.root
	for _, e := range split(name) {
		n = n.entries[e]
	}
	return n
}

func (c *Cursor) parent(name string) (dir *node, last string) {
	elems := split(name)
	n := c.root
	for _, e := range elems[:len(elems)-1] {
		n = n.entries[e]
	}
	return n, elems[len(elems)-1]
}
