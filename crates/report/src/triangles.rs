//! A mesh that rays meet: its triangles in boxes within boxes.

use cmdp::Mesh;

type Vec3 = [f32; 3];

/// Triangles in one box at the most.
const FEW: usize = 4;

/// The triangles of a mesh, sorted for rays.
#[derive(Debug, Clone)]
pub struct Triangles {
    /// Corners, box after box.
    corners: Vec<[Vec3; 3]>,
    boxes: Vec<Node>,
    /// No corner is farther from the middle.
    reach: f32,
}

/// A box and what is in it: the two boxes from `first` on, or where there is a count so many triangles.
#[derive(Debug, Clone, Copy)]
struct Node {
    low: Vec3,
    high: Vec3,
    first: usize,
    count: usize,
}

fn minus(a: Vec3, b: Vec3) -> Vec3 {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: Vec3, b: Vec3) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl Triangles {
    /// Those of a mesh; corners that it does not have are left out with their triangles.
    pub fn new(mesh: &Mesh) -> Self {
        let corner = |i: u32| mesh.vertices.get(i as usize).copied();
        let corners = mesh.faces.iter();
        let mut corners: Vec<[Vec3; 3]> =
            corners.filter_map(|&[a, b, c]| Some([corner(a)?, corner(b)?, corner(c)?])).collect();
        let reach = corners.iter().flatten().map(|c| dot(*c, *c)).fold(0.0, f32::max).sqrt();
        let mut boxes = Vec::new();
        if !corners.is_empty() {
            boxes.push(Node { low: [0.0; 3], high: [0.0; 3], first: 0, count: 0 });
            let all = 0..corners.len();
            split(&mut corners, all, 0, &mut boxes);
        }
        Self { corners, boxes, reach }
    }

    /// How far it reaches from its middle.
    pub fn reach(&self) -> f32 {
        self.reach
    }

    /// Where a ray enters, farther along than `least`: how far, and the direction of the surface.
    pub fn hit(&self, from: Vec3, towards: Vec3, least: f32) -> Option<(f32, Vec3)> {
        let (mut nearest, mut found) = (f32::INFINITY, None);
        let mut open: Vec<usize> = (0..self.boxes.len().min(1)).collect();
        while let Some(i) = open.pop() {
            let node = &self.boxes[i];
            if !node.is_met(from, towards, least, nearest) {
                continue;
            }
            if node.count == 0 {
                open.extend([node.first, node.first + 1]);
                continue;
            }
            for corners in &self.corners[node.first..node.first + node.count] {
                if let Some((t, normal)) = enters(corners, from, towards)
                    && t > least
                    && t < nearest
                {
                    (nearest, found) = (t, Some((t, normal)));
                }
            }
        }
        found
    }
}

/// Puts triangles into boxes, each half of what is in the one around it.
fn split(
    corners: &mut [[Vec3; 3]],
    range: std::ops::Range<usize>,
    at: usize,
    boxes: &mut Vec<Node>,
) {
    let inside = &mut corners[range.clone()];
    let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for corner in inside.iter().flatten() {
        for axis in 0..3 {
            (low[axis], high[axis]) = (low[axis].min(corner[axis]), high[axis].max(corner[axis]));
        }
    }
    boxes[at] = Node { low, high, first: range.start, count: inside.len() };
    if inside.len() <= FEW {
        return;
    }
    let size = minus(high, low);
    let axis = (0..3).max_by(|&a, &b| size[a].total_cmp(&size[b])).unwrap_or(0);
    let middle = |t: &[Vec3; 3]| t[0][axis] + t[1][axis] + t[2][axis];
    let half = inside.len() / 2;
    inside.select_nth_unstable_by(half, |a, b| middle(a).total_cmp(&middle(b)));
    let first = boxes.len();
    boxes.extend([boxes[at]; 2]);
    (boxes[at].first, boxes[at].count) = (first, 0);
    split(corners, range.start..range.start + half, first, boxes);
    split(corners, range.start + half..range.end, first + 1, boxes);
}

impl Node {
    fn is_met(&self, from: Vec3, towards: Vec3, least: f32, most: f32) -> bool {
        let (mut enter, mut leave) = (least, most);
        for axis in 0..3 {
            let inverse = 1.0 / towards[axis];
            let (a, b) =
                ((self.low[axis] - from[axis]) * inverse, (self.high[axis] - from[axis]) * inverse);
            // Along a side, what is no number changes nothing.
            enter = enter.max(a.min(b));
            leave = leave.min(a.max(b));
        }
        // A ray along an edge is met by whatever rounding makes of it.
        enter <= leave + 1e-5 * enter.abs().max(1.0)
    }
}

/// Where a ray goes through a triangle from its front, on which its corners turn to the left.
fn enters([a, b, c]: &[Vec3; 3], from: Vec3, towards: Vec3) -> Option<(f32, Vec3)> {
    let (u, v) = (minus(*b, *a), minus(*c, *a));
    let normal = cross(u, v);
    let facing = -dot(normal, towards);
    if facing <= 0.0 {
        return None;
    }
    let away = minus(from, *a);
    let turned = cross(towards, away);
    let (x, y) = (-dot(v, turned), dot(u, turned));
    let inside = x >= 0.0 && y >= 0.0 && x + y <= facing;
    inside.then(|| (dot(normal, away) / facing, normal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of boxes, so many along each side, as one mesh.
    fn blocks(side: usize) -> Mesh {
        let (mut vertices, mut faces): (Vec<Vec3>, Vec<[u32; 3]>) = Default::default();
        for i in 0..side * side * side {
            let place = [i % side, i / side % side, i / side / side].map(|x| 3.0 * x as f32);
            let first = vertices.len() as u32;
            vertices.extend(
                (0..8)
                    .map(|c| [0, 1, 2].map(|axis| place[axis] + f32::from((c >> axis & 1) as u8))),
            );
            for [a, b, c, d] in
                [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
            {
                faces.extend([[a, b, c], [a, c, d]].map(|face| face.map(|i: u32| first + i)));
            }
        }
        Mesh { vertices, faces }
    }

    #[test]
    fn a_ray_enters_where_it_should_and_boxes_hide_nothing() {
        let mesh = blocks(3);
        let sorted = Triangles::new(&mesh);
        assert_eq!(sorted.hit([0.5, 0.4, -2.0], [0.0, 0.0, 1.0], 0.0).unwrap().0, 2.0);
        // From between two of them, and from within one, whose back is not entered.
        assert_eq!(sorted.hit([0.5, 0.4, 2.0], [0.0, 0.0, 1.0], 0.0).unwrap().0, 1.0);
        assert_eq!(sorted.hit([0.5, 0.4, 0.5], [0.0, 0.0, 1.0], 0.0).unwrap().0, 2.5);
        assert!(sorted.hit([2.0, 0.4, -2.0], [0.0, 0.0, 1.0], 0.0).is_none());
        let one_by_one = |from, towards| {
            let corners = |face: &[u32; 3]| face.map(|i| mesh.vertices[i as usize]);
            let hits = mesh.faces.iter().filter_map(|f| enters(&corners(f), from, towards));
            hits.map(|(t, _)| t).filter(|t| *t > 0.0).min_by(f32::total_cmp)
        };
        for i in 0..500 {
            let angle = i as f32;
            let from =
                [4.0 + 9.0 * angle.sin(), 4.0 + 9.0 * angle.cos(), 4.0 + (3.0 * angle).sin()];
            let towards = minus([i as f32 % 7.0, i as f32 % 5.0, i as f32 % 8.0], from);
            let found = sorted.hit(from, towards, 0.0).map(|(t, _)| t);
            assert_eq!(found, one_by_one(from, towards));
        }
        assert!(
            Triangles::new(&Mesh { vertices: vec![], faces: vec![] })
                .hit([0.0; 3], [1.0, 0.0, 0.0], 0.0)
                .is_none()
        );
    }
}
