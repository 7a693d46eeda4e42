package fourfold

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// LossyProxy stands before the Kafka door and loses answers to Produce on demand: the request arrives, its answer does not,
// the connection breaks. Answers that name the broker's port are changed to name the proxy's, so that clients stay on it.
type LossyProxy struct {
	Address string
	target  string
	mine    []byte
	own     []byte
	mutex   sync.Mutex
	toLose  int
	lost    int
}

// Proxy starts a proxy before b that ends with the test.
func Proxy(t testing.TB, b *Broker) *LossyProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := &LossyProxy{Address: listener.Addr().String(), target: b.Kafka()}
	p.mine, p.own = wireAddress(p.Address), wireAddress(p.target)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// LoseProduceAnswers loses the next count answers to Produce, each with its connection.
func (p *LossyProxy) LoseProduceAnswers(count int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.toLose = count
}

// Lost is how many answers have been lost.
func (p *LossyProxy) Lost() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.lost
}

func (p *LossyProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var produce sync.Map
	go func() {
		defer server.Close()
		for {
			request, err := frame(client)
			if err != nil {
				return
			}
			if binary.BigEndian.Uint16(request[4:]) == 0 {
				produce.Store(binary.BigEndian.Uint32(request[8:]), true)
			}
			if _, err := server.Write(request); err != nil {
				return
			}
		}
	}()
	for {
		answer, err := frame(server)
		if err != nil {
			return
		}
		if _, is := produce.Load(binary.BigEndian.Uint32(answer[4:])); is && p.loses() {
			return
		}
		if _, err := client.Write(bytes.ReplaceAll(answer, p.own, p.mine)); err != nil {
			return
		}
	}
}

func (p *LossyProxy) loses() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.toLose == 0 {
		return false
	}
	p.toLose--
	p.lost++
	return true
}

// wireAddress is how an answer names an address: the host's text and the port in four bytes.
func wireAddress(address string) []byte {
	resolved, _ := net.ResolveTCPAddr("tcp", address)
	return binary.BigEndian.AppendUint32([]byte("127.0.0.1"), uint32(resolved.Port))
}

func frame(from io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	whole := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
	_, err := io.ReadFull(from, whole[4:])
	return whole, err
}
