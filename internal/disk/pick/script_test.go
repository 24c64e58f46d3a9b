package pick

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/script"
)

// TestScripts chooses compactions of versions that scripts describe.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/scripts", verbs, func(s *script.Script) (*chooser, func()) { return &chooser{Script: s}, func() {} })
}

// chooser has a version and what is running.
type chooser struct {
	*script.Script
	o      Options
	levels map[int][]*version.FileMeta
	files  map[uint64]*version.FileMeta
	v      Picker
	picked *Compaction
	asked  []uint64 // tables of which Expired was asked
	known  *version.TableCounts
}

// table is a table as scripts write it: number=(smallest, largest, size) and then t and v, the numbers of tombstones and
// values, x, the time at which its values expire, q, its sequence numbers, and first and last, those of its bounds.
func (p *chooser) table(num string, vals []string) *version.FileMeta {
	n, first, last := number(num), uint64(1), uint64(1)
	counts, counted, seqs := version.TableCounts{LargestSeq: n}, false, (*version.SeqRange)(nil)
	for _, field := range vals[3:] {
		switch name, value := field[:1], number(field[1:]); name {
		case "t":
			counts.Tombstones, counted = value, true
		case "v":
			counts.Entries, counted = value, true
		case "x":
			counts.Expiry, counts.LargestSeq, counted = value, 0, true
			seqs = &version.SeqRange{Smallest: n, Largest: n, Known: true}
		case "q":
			seqs = &version.SeqRange{Smallest: 0, Largest: value, Known: true}
		case "f":
			first = value
		case "l":
			last = value
		}
	}
	f := version.NewFileMeta(n, number(vals[2]), ikey(vals[0], first), ikey(vals[1], last))
	if counts.Entries += counts.Tombstones; counted {
		f.SetCounts(&counts)
	}
	if seqs != nil {
		f.Seqs.Store(seqs)
	}
	return f
}

func number(text string) uint64 { return script.Sure(strconv.ParseUint(text, 10, 64)) }

// tables returns those that the arguments of a statement describe.
func (p *chooser) tables(c *script.Statement) (all []*version.FileMeta) {
	for _, a := range c.Args {
		all = append(all, p.table(a.Key, a.Vals))
	}
	return all
}

// named returns the tables whose numbers are the arguments.
func (p *chooser) named(c *script.Statement) (all []*version.FileMeta) {
	for _, a := range c.Args {
		all = append(all, p.files[number(a.Key)])
	}
	return all
}

// show shows what was picked.
func (p *chooser) show(c *Compaction) {
	if p.picked = c; c == nil {
		p.Show("nothing")
		return
	}
	text := fmt.Sprintf("level %d: %v", c.Level, numsOf(c.Inputs))
	if len(c.Overlaps) > 0 {
		text += fmt.Sprintf(" with %v", numsOf(c.Overlaps))
	}
	text += fmt.Sprintf(" to level %d, %d bytes", c.OutputLevel, c.InputBytes())
	if p.o.TableSize == 0 {
		text += fmt.Sprintf(", tables of %d", c.TableSize)
	}
	for _, is := range []struct {
		word string
		is   bool
	}{{"moved", c.TrivialMove()}, {"dropped", c.Drop}, {"unhurried", c.Unhurried}} {
		if is.is {
			text += ", " + is.word
		}
	}
	p.Show("%s", text)
}

var verbs = script.Verbs[*chooser]{
	"options": func(p *chooser, c *script.Statement) error { // and an empty version
		p.o = Options{L0Trigger: c.Number("trigger", 2), MaxLevelBase: uint64(c.Number("base", 100)), TableSize: uint64(c.Number("size", 10)),
			LargestTable: uint64(c.Number("largest", 0)), OldestReader: uint64(c.Number("reader", 0)), ExpiredBy: uint64(c.Number("by", 0)),
			InBurst: c.Take("burst", "") != ""}
		if now := c.Number("now", 0); now > 0 {
			p.o.Expired = func(f *version.FileMeta) bool {
				p.asked = append(p.asked, f.Num)
				c := f.Counts()
				return c != nil && c.Expiry > 0 && c.Expiry <= uint64(now)
			}
		}
		p.levels, p.files, p.asked = map[int][]*version.FileMeta{}, map[uint64]*version.FileMeta{}, nil
		p.v = newPicker(p, nil)
		return nil
	},
	"level": func(p *chooser, c *script.Statement) error { // replaces its tables
		level := int(number(c.Name()))
		c.Args = c.Args[1:]
		p.levels[level] = p.tables(c)
		for _, f := range p.levels[level] {
			p.files[f.Num] = f
		}
		p.v = newPicker(p, p.levels)
		return nil
	},
	"busy": func(p *chooser, c *script.Statement) error { // tables that a compaction has
		for _, f := range p.files {
			f.Compacting = false
		}
		for _, f := range p.named(c) {
			f.Compacting = true
		}
		return nil
	},
	"running": func(p *chooser, c *script.Statement) error { // a compaction, or none
		p.o.Running = nil
		if len(c.Args) > 0 {
			r := &Compaction{Version: p.v.Version, Level: c.Number("level", 5), OutputLevel: c.Number("output", 6)}
			for _, a := range c.Args {
				if len(a.Vals) > 0 {
					r.Inputs = append(r.Inputs, p.table(a.Key, a.Vals))
				} else {
					r.Inputs = append(r.Inputs, p.files[number(a.Key)])
				}
			}
			p.o.Running = []*Compaction{r}
		}
		return nil
	},
	"claimed": func(p *chooser, c *script.Statement) error { p.o.Claimed = p.named(c); return nil },
	"counts": func(p *chooser, c *script.Statement) error { // of tables that are opened only now
		for _, f := range p.tables(c) {
			p.files[f.Num].SetCounts(f.Counts())
		}
		return nil
	},
	"next": func(p *chooser, _ *script.Statement) error { p.show(p.v.Next(p.o)); return nil },
	"again": func(p *chooser, _ *script.Statement) error { // while the last one runs
		for _, f := range p.picked.AllInputs() {
			f.Compacting = true
		}
		p.show(p.v.Next(p.o))
		return nil
	},
	"files": func(p *chooser, c *script.Statement) error { // a compaction that somebody asks for
		level, output, step := c.Number("level", 5), c.Number("output", 6), c.Number("step", 1)
		var from, to []byte
		if len(c.Args) > 0 {
			from, to = []byte(c.Args[0].Key), []byte(c.Args[1].Key)
		}
		picked, busy := p.v.OfFiles(level, output, p.v.Overlapping(level, from, to), uint64(step), p.o)
		if busy {
			p.Show("busy")
		}
		p.show(picked)
		return nil
	},
	"below": func(p *chooser, c *script.Statement) error { // which keys a level below the last compaction may have
		var pos [version.NumLevels]int
		for _, a := range c.Args {
			p.Show("%s: %v", a.Key, p.picked.HasKeyBelow([]byte(a.Key), &pos))
		}
		return nil
	},
	"shape": func(p *chooser, _ *script.Statement) error {
		s := p.v.Shape(p.o)
		p.Show("base level %d, targets %d", s.BaseLevel, s.Target[s.BaseLevel:])
		return nil
	},
	"sizes": func(p *chooser, _ *script.Statement) error { // of new tables
		var sizes []string
		for level := range version.NumLevels {
			sizes = append(sizes, fmt.Sprint(p.v.TableSizeIn(level, p.o)))
		}
		p.Show("%s", strings.Join(sizes, " "))
		return nil
	},
	"place": func(p *chooser, c *script.Statement) error {
		files, levels := p.tables(c), []int(nil)
		placed := p.v.Place(files, p.o)
		for i, l := range placed {
			if l.File != files[i] {
				p.Show("table %d is at another place", l.File.Num)
			}
			levels = append(levels, l.Level)
		}
		p.Show("levels %d", levels)
		_, err := p.v.Apply(version.Change{Added: placed})
		return err
	},
	"frees": func(p *chooser, c *script.Statement) error { // whether a compaction of flushed tables is foreseen
		if f := p.files[uint64(c.Number("uncounted", 0))]; f != nil {
			p.known = f.Counts()
			f.SetCounts(nil)
		}
		learned := p.files[uint64(c.Number("learned", 0))]
		for _, f := range p.tables(c) {
			p.Show("%v", p.v.Frees(f, p.o, func(f *version.FileMeta) {
				if f == learned {
					f.SetCounts(p.known)
				}
			}))
		}
		return nil
	},
	"asked": func(p *chooser, _ *script.Statement) error { // which tables may have expired, since "options"
		p.Show("%d", p.asked)
		return nil
	},
}

func ikey(user string, seq uint64) []byte {
	return base.AppendInternalKey(nil, []byte(user), seq, base.KindSet)
}
