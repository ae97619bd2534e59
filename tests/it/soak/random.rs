//! Numbers that depend on nothing but a seed.

/// A number in the environment, such as the seed of a soak.
pub fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|it| it.parse().unwrap())
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than this.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    /// True in one of this number of cases.
    pub fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
