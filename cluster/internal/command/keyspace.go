package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func del(c *Call, tx kv.Tx) error {
	deleted := int64(0)
	for _, key := range c.Args[1:] {
		_, found, err := tx.Get(key)
		if err != nil {
			return err
		}
		if found {
			tx.Delete(key)
			deleted++
		}
	}
	c.Reply.Int(deleted)
	return nil
}

// exists is also TOUCH: nothing here depends on when a key was last used.
func exists(c *Call, r kv.Reader) error {
	n := int64(0)
	for _, key := range c.Args[1:] {
		_, found, err := r.Get(key)
		if err != nil {
			return err
		}
		if found {
			n++
		}
	}
	c.Reply.Int(n)
	return nil
}

func typeOf(c *Call, r kv.Reader) error {
	_, found, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	if found {
		c.Reply.Status("string")
	} else {
		c.Reply.Status("none")
	}
	return nil
}

// rename returns the function of RENAME, or RENAMENX if onlyNew is set.
func rename(onlyNew bool) func(*Call, kv.Tx) error {
	return func(c *Call, tx kv.Tx) error {
		from, to := c.Args[1], c.Args[2]
		v, found, err := tx.Get(from)
		if err != nil {
			return err
		}
		if !found {
			c.Reply.Error(errNoKey)
			return nil
		}
		if onlyNew {
			_, exists, err := tx.Get(to)
			if err != nil {
				return err
			}
			c.Reply.Flag(!exists)
			if exists {
				return nil
			}
		} else {
			c.Reply.OK()
		}
		if string(from) != string(to) {
			tx.Put(to, v)
			tx.Delete(from)
		}
		return nil
	}
}

// redisDatabases is the number of databases that a Redis has, if only one of them within a cluster.
const redisDatabases = 16

// parseCopyOptions parses the options of COPY. The only database is 0.
func (c *Call) parseCopyOptions() (replace, ok bool) {
	database := int64(0)
	for i := 3; i < len(c.Args); i++ {
		switch {
		case c.is(i, "replace"):
			replace = true
		case c.is(i, "db") && i+1 < len(c.Args):
			i++
			if database, ok = c.integer(i); !ok {
				return false, false
			}
			if int64(int32(database)) != database {
				c.Reply.Error(errInt32)
				return false, false
			}
			if database < 0 || database >= redisDatabases {
				c.Reply.Error(errDatabase)
				return false, false
			}
		default:
			c.Reply.Error(errSyntax)
			return false, false
		}
	}
	if database != 0 {
		c.Reply.Error(errCopyTo)
		return false, false
	}
	return replace, true
}

func copyKey(c *Call, tx kv.Tx) error {
	replace, ok := c.parseCopyOptions()
	if !ok {
		return nil
	}
	from, to := c.Args[1], c.Args[2]
	if string(from) == string(to) {
		c.Reply.Error(errSameKeys)
		return nil
	}
	v, found, err := tx.Get(from)
	if err != nil {
		return err
	}
	_, exists, err := tx.Get(to)
	if err != nil {
		return err
	}
	copies := found && (replace || !exists)
	if copies {
		tx.Put(to, v)
	}
	c.Reply.Flag(copies)
	return nil
}
