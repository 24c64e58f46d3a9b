package server

import (
	"container/list"
	"net"
	"time"
)

// MaxRejecting is how many connections at a time get an error because there are too many. Each uses a descriptor until
// the client has the error, so further ones are closed without an error.
const MaxRejecting = 64

// places are the connections of a server. They are guarded by the server's mu.
//
// Clients that have not authenticated have places of their own, so that they use none of those that have. For the time
// newcomer after they connected, they may also use free places of clients, because many connect at once after a
// restart. If there is no place for another one, the one that has waited longest is closed, because a real client
// authenticates at once. Without a password, each connection uses the place of a client. If these are full, the oldest
// one that has not completed any request is closed.
type places struct {
	all       map[*conn]bool
	admitted  int
	strangers list.List // of *conn that have not authenticated, or not completed a request; the oldest is in front
	rejecting int
}

// place is that of a connection. A new one without a password is both admitted and a stranger; one that was closed for
// another is neither.
type place struct {
	admitted bool          // it has the place of a client
	stranger *list.Element // its place among those; nil: it has none
	since    time.Time     // when it became one
	evicted  bool          // it gets an error, because another one has its place
}

// newcomer is for how long a connection that has to authenticate is given a free place of a client.
const newcomer = time.Second

func (s *Server) accept(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		nc.Close()
	case !s.makeRoom():
		s.reject(nc)
	default:
		s.stats.connections.Add(1)
		c := newConn(s, nc, s.stats.nextID.Add(1))
		s.places.all[c] = true
		s.addStranger(c)
		if s.options.Password == "" {
			c.place.admitted = true
			s.places.admitted++
		}
		s.conns.Go(func() {
			c.serve()
			s.leave(c)
		})
	}
}

func (s *Server) addStranger(c *conn) {
	c.place.since, c.place.stranger = s.now(), s.places.strangers.PushBack(c)
}

// makeRoom closes strangers until there is a place for another one, and returns false if there is none: all are those
// of clients that are known. It needs mu.
func (s *Server) makeRoom() bool {
	for s.isFull() {
		if s.places.strangers.Len() == 0 {
			return false
		}
		s.evict()
	}
	return true
}

func (s *Server) isFull() bool {
	p, o := &s.places, &s.options
	switch strangers := p.strangers.Len(); {
	case o.Password == "":
		return p.admitted >= int(s.live.maxClients.Load())
	case strangers < o.MaxUnauthenticated:
		return false
	case strangers+p.admitted >= o.MaxUnauthenticated+int(s.live.maxClients.Load()):
		return true
	}
	return s.now().Sub(p.strangers.Front().Value.(*conn).place.since) >= newcomer
}

// evict closes the oldest stranger, which gets an error. It needs mu.
func (s *Server) evict() {
	old := s.places.strangers.Front().Value.(*conn)
	s.remove(old)
	s.stats.evicted.Add(1)
	if s.places.rejecting >= MaxRejecting {
		old.hangUp()
		return
	}
	s.places.rejecting++
	old.place.evicted = true
	_ = old.nc.SetWriteDeadline(time.Now().Add(strangersTime))
	old.interrupt() // its goroutine may be reading, so that one sends the error, in leave
}

// remove takes the place of a connection. It needs mu.
func (s *Server) remove(c *conn) {
	if c.place.stranger != nil {
		s.places.strangers.Remove(c.place.stranger)
		c.place.stranger = nil
	}
	if c.place.admitted {
		c.place.admitted = false
		s.places.admitted--
	}
	delete(s.places.all, c)
}

// know is called when a connection without a password has completed its first request. It returns false if another one
// has its place by then: it gets an error, so nothing may be done for it.
func (s *Server) know(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place.stranger != nil {
		s.places.strangers.Remove(c.place.stranger)
		c.place.stranger = nil
	}
	return !c.place.evicted
}

// admit gives a connection that has authenticated the place of a client. It returns false if there is none, or if
// the connection was closed meanwhile.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.place.admitted:
		return true
	case c.place.stranger == nil:
		return false
	case s.places.admitted >= int(s.live.maxClients.Load()):
		s.stats.rejected.Add(1)
		return false
	}
	s.places.strangers.Remove(c.place.stranger)
	c.place.stranger, c.place.admitted = nil, true
	s.places.admitted++
	return true
}

// expel makes a client a stranger again.
func (s *Server) expel(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place.admitted {
		c.place.admitted = false
		s.places.admitted--
		s.makeRoom()
		s.addStranger(c)
	}
}

// leave closes a connection.
func (s *Server) leave(c *conn) {
	s.mu.Lock()
	s.remove(c)
	evicted := c.place.evicted
	s.mu.Unlock()
	if evicted {
		s.dismiss(c.nc)
	}
	c.nc.Close()
}

const tooManyClients = "ERR max number of clients reached"

// reject closes a connection that is one too many, with an error. It needs mu.
func (s *Server) reject(nc net.Conn) {
	s.stats.rejected.Add(1)
	if s.places.rejecting >= MaxRejecting {
		nc.Close()
		return
	}
	s.places.rejecting++
	s.conns.Go(func() { s.dismiss(nc) })
}

// dismiss closes one of the connections that are counted by rejecting.
func (s *Server) dismiss(nc net.Conn) {
	dismiss(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places.rejecting--
}
