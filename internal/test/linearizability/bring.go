package linearizability

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/sstable"
)

// bring ingests one or two tables with all keys of a range of groups, or loads them. The history has an operation for
// each group.
func (c *client) bring() bool {
	from := c.rnd.IntN(c.Count)
	to := from + 1 + c.rnd.IntN(min(4, c.Count-from))
	var all []input
	for group := from; group < to; group++ {
		in := input{group: group, mask: 1<<c.Width - 1, write: true, how: "bring"}
		for key := range c.Width {
			in.values[key] = int(c.written.Add(1))
		}
		all = append(all, in)
	}
	act := c.load
	if c.rnd.IntN(2) == 0 {
		act = c.ingest
	}
	return c.do(func() (values, error) { return values{}, act(all) }, all...)
}

func (c *client) load(all []input) error {
	l, err := c.d.NewLoader()
	if err != nil {
		return err
	}
	for _, in := range all {
		for key := range c.Width {
			if err := l.Put(keyOf(in.group, key), valueOf(in.values[key])); err != nil {
				return err
			}
		}
	}
	return l.Commit()
}

func (c *client) ingest(all []input) error {
	half := c.rnd.IntN(len(all))
	var paths []string
	for _, part := range [][]input{all[:half], all[half:]} {
		if len(part) == 0 {
			continue
		}
		path := fmt.Sprintf("incoming-%d-%d", c.id, c.written.Add(1))
		paths = append(paths, path)
		defer c.disk.Remove(path)
		if err := c.makeTable(path, part); err != nil {
			return err
		}
	}
	_, err := c.d.Ingest(context.Background(), paths, nil)
	return err
}

func (c *client) makeTable(path string, all []input) error {
	file, err := c.disk.Create(path)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(file, sstable.WriterOptions{BlockSize: 256})
	for _, in := range all {
		for key := range c.Width {
			k := sstable.Key{User: keyOf(in.group, key), Seq: 1}
			if err := w.Add(k.Append(nil), valueOf(in.values[key])); err != nil {
				return err
			}
		}
	}
	_, err = w.Finish()
	return errors.Join(err, file.Close())
}
