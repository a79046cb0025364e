//! A few values by name.

/// Values by name, each name once. Equal if names and values are, in whatever order they came.
///
/// ```
/// use grouped_linear::ops::Named;
/// let named = Named::new().with("x", 1).with("bias", 2);
/// assert_eq!(named.get("x"), Some(&1));
/// assert_eq!(named, Named::new().with("bias", 2).with("x", 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named<T>(Vec<(&'static str, T)>); // ordered by name

impl<T> Named<T> {
    /// Nothing.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// With this value, instead of the one that had the name before.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: T) -> Self {
        self.insert(name, value);
        self
    }

    /// Gives `name` this value; returns the one it had.
    pub fn insert(&mut self, name: &'static str, value: T) -> Option<T> {
        match self.position(name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    /// The value of `name`, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.position(name).ok().map(|at| &mut self.0[at].1)
    }

    /// Removes the value of `name`.
    pub fn take(&mut self, name: &str) -> Option<T> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|&(name, _)| name)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// All names and values, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut T)> {
        self.0.iter_mut().map(|(name, value)| (*name, value))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by_key(&name, |&(name, _)| name)
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> FromIterator<(&'static str, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (&'static str, T)>>(values: I) -> Self {
        values.into_iter().fold(Self::new(), |named, (name, value)| named.with(name, value))
    }
}

impl<T> IntoIterator for Named<T> {
    type Item = (&'static str, T);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
