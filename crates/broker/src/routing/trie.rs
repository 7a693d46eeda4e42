//! Topic patterns compiled to a trie of words: `*` is one word, `#` any number of words, none too.
//!
//! A key is matched by walking all places that its words may have led to at once, each once: the work is bounded by
//! words × patterns, whatever patterns somebody has thought of.

use std::collections::HashMap;

use super::table::Dest;

/// The place where every key begins.
const ROOT: u32 = 0;

/// Patterns with their destinations.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    free: Vec<u32>,
    reached: Reached,
}

/// Which places a step of a walk has come to: each is looked at once.
#[derive(Debug, Default)]
struct Reached {
    /// The step that came to each place last.
    by: Vec<u64>,
    step: u64,
}

impl Reached {
    /// The next step, of a walk through so many places.
    fn step(&mut self, places: usize) {
        self.by.resize(places, 0);
        self.step += 1;
    }

    /// Whether the step is at that place for the first time.
    fn is_new(&mut self, at: u32) -> bool {
        let step = self.step;
        self.by.get_mut(at as usize).is_some_and(|by| std::mem::replace(by, step) != step)
    }
}

/// A place after some words of a pattern.
#[derive(Debug, Default)]
struct Node {
    words: HashMap<Box<str>, u32>,
    star: Option<u32>,
    hash: Option<u32>,
    /// It was reached by `#`: any word leads back to it.
    stays: bool,
    /// Where patterns that end here lead.
    here: Vec<Dest>,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.words.is_empty() && self.star.is_none() && self.hash.is_none()
    }

    fn child(&self, word: &str) -> Option<u32> {
        match word {
            "*" => self.star,
            "#" => self.hash,
            word => self.words.get(word).copied(),
        }
    }
}

/// The words of a key or pattern. An empty one has none.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let all = (!text.is_empty()).then(|| text.split('.'));
    all.into_iter().flatten()
}

impl Default for Trie {
    fn default() -> Trie {
        Trie { nodes: vec![Node::default()], free: Vec::new(), reached: Reached::default() }
    }
}

impl Trie {
    /// Adds a destination under `pattern`. The same twice is the caller's mistake.
    pub(super) fn insert(&mut self, pattern: &str, dest: Dest) {
        let mut at = ROOT;
        for word in words(pattern) {
            let known = self.node(at).and_then(|node| node.child(word));
            at = known.unwrap_or_else(|| self.grow(at, word));
        }
        if let Some(node) = self.node_mut(at) {
            node.here.push(dest);
        }
    }

    /// Takes a destination out from under `pattern`, with the places that nothing needs any more.
    pub(super) fn remove(&mut self, pattern: &str, dest: Dest) {
        let mut way = vec![(ROOT, "")];
        for word in words(pattern) {
            let last = way.last().map_or(ROOT, |(at, _)| *at);
            let Some(next) = self.node(last).and_then(|node| node.child(word)) else { return };
            way.push((next, word));
        }
        if let Some(node) = way.last().and_then(|(at, _)| self.node_mut(*at)) {
            node.here.retain(|known| *known != dest);
        }
        while let Some((at, word)) = way.pop()
            && let Some((before, _)) = way.last()
            && self.node(at).is_some_and(Node::is_empty)
        {
            self.free.push(at);
            if let Some(parent) = self.node_mut(*before) {
                match word {
                    "*" => parent.star = None,
                    "#" => parent.hash = None,
                    word => drop(parent.words.remove(word)),
                }
            }
        }
    }

    /// Puts the destinations of all patterns that match `key` into `out`; some perhaps more than once.
    pub(super) fn find(&mut self, key: &str, out: &mut Vec<Dest>) {
        let Trie { nodes, reached, .. } = self;
        let (mut now, mut next) = (Vec::new(), Vec::new());
        reached.step(nodes.len());
        reach(nodes, ROOT, reached, &mut now);
        for word in words(key) {
            reached.step(nodes.len());
            for (at, node) in now.drain(..).filter_map(|at: u32| Some((at, nodes.get(at as usize)?))) {
                if node.stays {
                    reach(nodes, at, reached, &mut next);
                }
                for child in [node.words.get(word).copied(), node.star].into_iter().flatten() {
                    reach(nodes, child, reached, &mut next);
                }
            }
            std::mem::swap(&mut now, &mut next);
        }
        for node in now.iter().filter_map(|at| self.node(*at)) {
            out.extend_from_slice(&node.here);
        }
    }

    fn grow(&mut self, from: u32, word: &str) -> u32 {
        let fresh = Node { stays: word == "#", ..Node::default() };
        let at = self.free.pop().unwrap_or(self.nodes.len() as u32);
        match self.node_mut(at) {
            Some(node) => *node = fresh,
            None => self.nodes.push(fresh),
        }
        if let Some(parent) = self.node_mut(from) {
            match word {
                "*" => parent.star = Some(at),
                "#" => parent.hash = Some(at),
                word => drop(parent.words.insert(word.into(), at)),
            }
        }
        at
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }
}

/// Puts `at` into `places`, with what `#` reaches from there by no word at all.
fn reach(nodes: &[Node], at: u32, reached: &mut Reached, places: &mut Vec<u32>) {
    let mut next = Some(at);
    while let Some(at) = next.filter(|at| reached.is_new(*at)) {
        places.push(at);
        next = nodes.get(at as usize).and_then(|node| node.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(patterns: &[&str], key: &str) -> Vec<u64> {
        let mut trie = Trie::default();
        for (at, pattern) in patterns.iter().enumerate() {
            trie.insert(pattern, Dest::Queue(at as u64));
        }
        let mut out = Vec::new();
        trie.find(key, &mut out);
        out.sort_unstable();
        out.dedup();
        out.iter().map(|dest| if let Dest::Queue(id) = dest { *id } else { u64::MAX }).collect()
    }

    #[test]
    fn patterns_take_the_keys_that_the_original_takes() {
        // pattern, keys it takes, keys it does not take; measured on the original where odd
        let cases: [(&str, &[&str], &[&str]); 12] = [
            ("a.*.c", &["a.b.c", "a..c"], &["a.c", "a.b.b.c", "", "a.b"]),
            ("a.#", &["a", "a.b", "a.b.c", "a."], &["", "b", "b.a"]),
            ("#.c", &["c", "a.b.c", ".c"], &["", "c.a", "a"]),
            ("#", &["", "a", "a.b", "."], &[]),
            ("*", &["a"], &["", "a.b"]),
            ("", &[""], &["a", "."]),
            ("p.*.#", &["p.", "p..", "p.a", "p.a.b.c"], &["p"]),
            ("#.b.#", &["b", "a.b", "b.a", "x.b.y.b.z"], &["", "a", "bb"]),
            ("a.b", &["a.b"], &["a", "a.b.c", "a.*", "a.#"]),
            ("#.#", &["", "a", "a.b"], &[]),
            ("*.#", &["a", "a.b"], &[""]),
            ("#.*", &["a", "a.b"], &[""]),
        ];
        for (pattern, takes, leaves) in cases {
            for key in takes {
                assert_eq!(matching(&[pattern], key), [0], "{pattern} takes {key:?}");
            }
            for key in leaves {
                assert!(matching(&[pattern], key).is_empty(), "{pattern} does not take {key:?}");
            }
        }
    }

    #[test]
    fn all_patterns_that_match_are_found() {
        let patterns = ["a.*.c", "a.#", "#.c", "x", "*.b.*", "a.b.c", "a.b.*", "*.*.*", "#"];
        assert_eq!(matching(&patterns, "a.b.c"), [0, 1, 2, 4, 5, 6, 7, 8]);
        assert_eq!(matching(&patterns, "c"), [2, 8]);
    }

    #[test]
    fn patterns_made_to_be_slow_are_not() {
        let pattern = ["#.a"; 60].join(".");
        let key = ["a"; 120].join(".");
        assert_eq!(matching(&[&pattern], &key), [0]);
        assert!(matching(&[&pattern, &format!("{pattern}.b")], &format!("{key}.c")).is_empty());
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind() {
        let mut trie = Trie::default();
        let patterns = ["a.b.c", "a.*.#", "#.x.#", "", "a"];
        for round in 0..3 {
            for pattern in patterns {
                trie.insert(pattern, Dest::Queue(1));
                trie.insert(pattern, Dest::Queue(2));
            }
            for pattern in patterns {
                trie.remove(pattern, Dest::Queue(1));
            }
            let mut out = Vec::new();
            trie.find("a.b.c", &mut out);
            assert_eq!(out.len(), 2, "round {round}");
            for pattern in patterns {
                trie.remove(pattern, Dest::Queue(2));
                trie.remove(pattern, Dest::Queue(2));
            }
            assert!(trie.node(ROOT).unwrap().is_empty());
            assert_eq!(trie.free.len() + 1, trie.nodes.len(), "places are used again");
        }
    }
}
