// Command makegolden makes the golden directories of testdata/golden with the program that each is named for:
//
//	go run ./makegolden -program=leveldb-1.23    # the system's LevelDB
//	go run ./makegolden -program=goleveldb
//	go run ./makegolden -program=sievedb
//	go run ./makegolden -program=leveldb-1.17 -driver=DRIVER
//	go run ./makegolden -program=leveldb-main -driver=DRIVER
//
// DRIVER is leveldb/driver.cc built against that release; the README.md of each directory says how.
// An existing directory is replaced. The keys are the same each time; the files are not always,
// because LevelDB flushes in the background.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/internal/test/interop"
	"github.com/sievedb/sievedb/vfs/outfile"
)

func main() {
	program := flag.String("program", "", "whose directories to make")
	driver := flag.String("driver", "", "build of leveldb/driver.cc; empty: build one against the system's LevelDB")
	out := flag.String("out", "../../../testdata/golden", "where to put them")
	flag.Parse()
	if err := makeAll(*program, *driver, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makeAll(program, driver, out string) error {
	work, err := os.MkdirTemp("", "makegolden-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	p, ok := programs[program]
	if !ok {
		return fmt.Errorf("makegolden: no program %q", program)
	}
	engine, err := engineOf(program, driver, work)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if c.program != program {
			continue
		}
		m := &maker{work: filepath.Join(work, c.name), model: interop.NewModel(), deleted: map[string]bool{},
			rng: rand.New(rand.NewPCG(uint64(len(c.name)), 3))}
		if err := m.make(c, engine); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := m.save(c, p, filepath.Join(out, c.name)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func engineOf(program, driver, work string) (interop.Engine, error) {
	switch {
	case program == "goleveldb":
		return interop.GoLevelDB{}, nil
	case program == "sievedb":
		return interop.SieveDB{}, nil
	case driver != "":
		return interop.NewLevelDB(driver), nil
	case program != "leveldb-1.23":
		return nil, fmt.Errorf("makegolden: -driver is needed for %s", program)
	}
	return interop.BuildDriver(work)
}

// maker makes one directory.
type maker struct {
	work    string
	db      interop.DB
	model   *interop.Model
	deleted map[string]bool
	rng     *rand.Rand
	err     error // the first one; later steps do nothing
}

func (m *maker) make(c golden, engine interop.Engine) error {
	if err := os.Mkdir(m.work, 0o700); err != nil {
		return err
	}
	dir := filepath.Join(m.work, "live")
	if m.db, m.err = engine.Open(dir, c.opts); m.err != nil {
		return m.err
	}
	c.fill(m)
	if m.err != nil {
		return m.err
	}
	left := filepath.Join(m.work, "db")
	if c.killed {
		if err := m.db.Kill(left); err != nil {
			return err
		}
	} else {
		if err := m.db.Close(); err != nil {
			return err
		}
		if err := os.Rename(dir, left); err != nil {
			return err
		}
	}
	return m.check(c, engine, left)
}

// check reads every key with the program itself, from a copy: reads can start compactions, and opening replays the log.
func (m *maker) check(c golden, engine interop.Engine, left string) error {
	trial := filepath.Join(m.work, "trial")
	if err := interop.CopyDir(trial, left); err != nil {
		return err
	}
	o := c.opts
	o.HoldBackground = false
	d, err := engine.Open(trial, o)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, key := range m.model.Keys() {
		values, err := d.Get([][]byte{[]byte(key)})
		if err != nil {
			return err
		}
		if values[0] == nil || string(values[0]) != string(m.model.Value(key)) {
			return fmt.Errorf("makegolden: %q has value %q, want %q", key, values[0], m.model.Value(key))
		}
	}
	return nil
}

func (m *maker) do(step func() error) {
	if m.err == nil {
		m.err = step()
	}
}

func (m *maker) write(ops ...interop.Op) {
	m.do(func() error { return m.db.Write(ops, false) })
	m.model.Apply(ops)
	for _, op := range ops {
		if op.Delete {
			m.deleted[string(op.Key)] = true
		} else {
			delete(m.deleted, string(op.Key))
		}
	}
}

func (m *maker) put(key, value string) { m.write(interop.Put([]byte(key), []byte(value))) }
func (m *maker) delete(key string)     { m.write(interop.Delete([]byte(key))) }
func (m *maker) flush()                { m.do(m.db.Flush) }

func (m *maker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	return b
}

// save moves the new directory to dir, together with its listing and README. It drops the LOG
// files, which contain the time.
func (m *maker) save(c golden, p programInfo, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	left := filepath.Join(m.work, "db")
	for _, name := range []string{"LOG", "LOG.old"} {
		if err := os.Remove(filepath.Join(left, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if c.oldSuffix {
		if err := renameTables(left); err != nil {
			return err
		}
	}
	if err := interop.CopyDir(filepath.Join(dir, "db"), left); err != nil {
		return err
	}
	if err := outfile.Write(filepath.Join(dir, "expected.txt"), []byte(m.listing()), 0o644); err != nil {
		return err
	}
	return outfile.Write(filepath.Join(dir, "README.md"), []byte(readme(c, p)), 0o644)
}

func renameTables(dir string) error {
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := os.Rename(table, strings.TrimSuffix(table, ".ldb")+".sst"); err != nil {
			return err
		}
	}
	return nil
}

// listing is described in testdata/golden/README.md.
func (m *maker) listing() string {
	var b strings.Builder
	for _, key := range m.model.Keys() {
		fmt.Fprintf(&b, "put %s %s\n", text([]byte(key)), text(m.model.Value(key)))
	}
	for _, key := range slices.Sorted(maps.Keys(m.deleted)) {
		fmt.Fprintf(&b, "del %s\n", text([]byte(key)))
	}
	return b.String()
}

func text(b []byte) string {
	switch {
	case len(b) == 0:
		return "."
	case len(b) <= 64:
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("sha256:%d:%x", len(b), sha256.Sum256(b))
}

func readme(c golden, p programInfo) string {
	return fmt.Sprintf("# %s\n\n%s\n\nMade by %s, in internal/test/interop with\n\n    %s\n",
		c.name, c.about, p.name, strings.ReplaceAll(p.command, "\n", "\n    "))
}
