package linearizability

import (
	"runtime"

	"github.com/sievedb/sievedb/db"
)

// reader is what keys are read from: the database, a snapshot, or a transaction.
type reader interface {
	Get(key []byte) ([]byte, error)
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}

// transaction draws what a transaction reads and writes, and returns how. It writes the keys of the
// mask; it may read them too.
func (c *client) transaction(in *input) func() (values, error) {
	in.write, in.reads, in.how = true, uint8(1+c.rnd.IntN(1<<c.Width-1)), "transaction"
	for key := range c.Width {
		if in.has(key) && c.rnd.IntN(4) > 0 {
			in.values[key] = int(c.written.Add(1))
		}
	}
	walks, back := c.rnd.IntN(2) == 0, c.rnd.IntN(2) == 0
	if walks {
		in.how, in.reads = "transaction with a walk", 1<<c.Width-1
	}
	op, wo := *in, &db.WriteOptions{NoSync: !c.Cut && c.rnd.IntN(8) > 0}
	return func() (out values, err error) {
		err = c.d.Update(func(tx *db.Transaction) error {
			tx.SetWriteOptions(wo)
			seen := input{group: op.group, mask: op.reads}
			if walks {
				out, err = walkGroup(tx, seen, back)
			} else {
				out, err = c.lookUp(seen, tx)
			}
			if err != nil {
				return err
			}
			runtime.Gosched()
			return op.writeTo(tx)
		})
		return out, err
	}
}

// writeTo writes the values of the mask.
func (in *input) writeTo(tx *db.Transaction) error {
	for key, value := range in.values {
		if !in.has(key) {
			continue
		}
		var err error
		if value == 0 {
			err = tx.Delete(keyOf(in.group, key))
		} else {
			err = tx.Put(keyOf(in.group, key), valueOf(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
