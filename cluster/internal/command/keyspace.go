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

func typeOf(c *Call, _ kv.Reader, _ kv.Value, found bool) error {
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
			return refusal("ERR no such key")
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
func (c *Call) parseCopyOptions() (replace bool, err error) {
	database := int64(0)
	err = c.options(3, option{word: "replace", is: &replace}, option{word: "db", takes: func(arg int) (err error) {
		switch database, err = c.integer(arg); {
		case err != nil:
			return err
		case int64(int32(database)) != database:
			return refusal("ERR value is out of range, value must between -2147483648 and 2147483647")
		case database < 0 || database >= redisDatabases:
			return refusal("ERR DB index is out of range")
		}
		return nil
	}})
	if err == nil && database != 0 {
		err = refusal("ERR Copying to another database is not allowed in cluster mode")
	}
	return replace, err
}

func copyKey(c *Call, tx kv.Tx) error {
	replace, err := c.parseCopyOptions()
	if err != nil {
		return err
	}
	from, to := c.Args[1], c.Args[2]
	if string(from) == string(to) {
		return refusal("ERR source and destination objects are the same")
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
