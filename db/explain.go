package db

// Explain looks key up and reports how: which runs were consulted, what their filters
// answered, which blocks were read. It reads what Get would read and fills the caches in the
// same way, but counts nothing in Metrics.
func (d *DB) Explain(key []byte) (*Explanation, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	found, err := d.finder.Explain(key, nil)
	if err != nil {
		return nil, err
	}
	return found.Explanation(), nil
}
