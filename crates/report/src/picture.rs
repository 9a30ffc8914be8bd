//! A picture of a scene: a ray through every pixel, four where an edge passes, and the shadow of one sun.
//!
//! Drawn by the processor, so that a video needs neither a graphics card nor a display; the floor has
//! no end. It looks as in the page (`scene.js`).

use cmdp::Shape;
use rayon::prelude::*;

use crate::triangles::Triangles;

type Vec3 = [f32; 3];

/// Towards the sun: (0.3, -0.5, 0.9), of length 1.
const SUN: Vec3 = [0.279_751, -0.466_252, 0.839_254];
const SKY: Vec3 = [0.9, 0.93, 0.96];
const TILES: [Vec3; 2] = [[0.42, 0.46, 0.5], [0.52, 0.56, 0.6]];
/// What a shadow takes of the light.
const SHADOW: f32 = 0.42;
/// The angle the camera looks down.
const LIFT: f32 = 0.25;
/// Half of the angle it sees, from top to bottom.
const HALF_ANGLE: f32 = 0.4;
/// Where the floor begins to fade into the sky, and where it is gone.
const FADE: (f32, f32) = (8.0, 26.0);
/// Within a pixel, where the four rays of an edge go.
const WITHIN: [(f32, f32); 4] = [(0.125, 0.625), (0.375, 0.125), (0.625, 0.875), (0.875, 0.375)];

/// How far the camera stands from what it looks at, and the height it looks at.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct View {
    /// How far, in metres.
    pub distance: f32,
    /// The height.
    pub height: f32,
}

impl View {
    /// For a robot of a metre or so.
    pub const USUAL: Self = Self { distance: 4.0, height: 0.6 };

    /// What shows all shapes as large: the usual where they reach about as far as a man does.
    pub fn of(shapes: &[Shape], meshes: &[Triangles], poses: &[[f32; 12]]) -> Self {
        let solids = shapes.iter().zip(poses).filter_map(|(s, pose)| Solid::new(s, meshes, pose));
        let solids: Vec<Solid> = solids.collect();
        let middle = middle(&solids);
        let moving = solids.iter().any(|solid| solid.moves);
        let far = |s: &Solid| {
            let away = minus(s.place, middle);
            dot(away, away).sqrt() + s.reach
        };
        let solids = solids.iter().filter(|solid| solid.moves || !moving);
        match solids.map(far).fold(0.0, f32::max) {
            0.65..=1.7 => Self::USUAL,
            reach => Self { distance: (4.0 * reach).clamp(0.2, 100.0), height: middle[2] },
        }
    }
}

/// Draws shapes, each with its position and rotation, from the side; some are of these meshes. Returns red, green
/// and blue, row after row from the top.
pub fn picture(
    shapes: &[Shape],
    meshes: &[Triangles],
    poses: &[[f32; 12]],
    view: View,
    (width, height): (usize, usize),
) -> Vec<u8> {
    let scene = Scene::new(shapes, meshes, poses, view, width, height);
    let mut seen = vec![Seen::default(); width * height];
    seen.par_chunks_exact_mut(width).enumerate().for_each(|(y, row)| {
        let near = scene.in_row(y);
        for (x, seen) in row.iter_mut().enumerate() {
            *seen = scene.look(&near, x as f32 + 0.5, y as f32 + 0.5);
        }
    });
    let mut pixels = vec![0; 3 * width * height];
    pixels.par_chunks_exact_mut(3 * width).enumerate().for_each(|(y, row)| {
        let near = scene.in_row(y);
        let (above, below) = (y.saturating_sub(1) * width, (y + 1).min(height - 1) * width);
        for (x, pixel) in row.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let here = seen[y * width + x];
            let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
            let around = [y * width + left, y * width + right, above + x, below + x];
            let colour = match around.iter().all(|&i| seen[i].what == here.what) {
                true => here.colour,
                false => WITHIN
                    .map(|(dx, dy)| scene.look(&near, x as f32 + dx, y as f32 + dy).colour)
                    .into_iter()
                    .fold([0.0; 3], |sum, colour| along(sum, 0.25, colour)),
            };
            *pixel = colour.map(|c| (255.0 * c + 0.5) as u8);
        }
    });
    pixels
}

/// What a ray sees: its colour, and a number for what it is, by which edges are found.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    colour: Vec3,
    what: usize,
}

struct Scene<'a> {
    solids: Vec<Solid<'a>>,
    /// The height of the floor.
    floor: Option<f32>,
    /// Outside of this, from and to in x and in y, the floor lies in the sun.
    shaded: [(f32, f32); 2],
    eye: Vec3,
    /// To the right, up, and ahead as far as the picture is away, in pixels.
    axes: [Vec3; 3],
    centre: (f32, f32),
}

impl<'a> Scene<'a> {
    fn new(
        shapes: &[Shape],
        meshes: &'a [Triangles],
        poses: &[[f32; 12]],
        view: View,
        width: usize,
        height: usize,
    ) -> Self {
        let placed = || shapes.iter().zip(poses);
        let floor = placed().find(|(shape, _)| shape.kind == "plane").map(|(_, pose)| pose[2]);
        let solids = placed().filter_map(|(shape, pose)| Solid::new(shape, meshes, pose));
        let mut solids: Vec<Solid> = solids.collect();
        let [x, y, _] = middle(&solids);
        // From the side: along y.
        let back = [0.0, -LIFT.cos(), LIFT.sin()];
        let eye = along([x, y, view.height], view.distance, back);
        let centre = (width as f32 / 2.0, height as f32 / 2.0);
        let focal = centre.1 / HALF_ANGLE.tan();
        let axes = [[1.0, 0.0, 0.0], [0.0, LIFT.sin(), LIFT.cos()], back.map(|x| -focal * x)];
        let mut shaded = [(f32::INFINITY, f32::NEG_INFINITY); 2];
        for solid in &mut solids {
            let away = minus(solid.place, eye);
            let depth = dot(away, axes[2]) / focal;
            let scale = focal / (depth - solid.reach).max(1e-3);
            let (x, y) = (focal * dot(away, axes[0]) / depth, focal * dot(away, axes[1]) / depth);
            let reach = solid.reach * scale + 1.0;
            let columns = (centre.0 + x - reach, centre.0 + x + reach);
            let rows = (centre.1 - y - reach, centre.1 - y + reach);
            let everywhere = (f32::NEG_INFINITY, f32::INFINITY);
            // What is beside or behind the camera has no place in the picture.
            let ahead = depth > solid.reach;
            (solid.columns, solid.rows) =
                if ahead { (columns, rows) } else { (everywhere, everywhere) };
            let fall = (solid.place[2] - floor.unwrap_or(0.0)) / SUN[2];
            let (at, wide) = (along(solid.place, -fall, SUN), solid.reach / SUN[2]);
            for ((from, to), x) in shaded.iter_mut().zip(at) {
                (*from, *to) = (from.min(x - wide), to.max(x + wide));
            }
        }
        Self { solids, floor, shaded, eye, axes, centre }
    }

    /// The solids that may be seen in a row of pixels.
    fn in_row(&self, y: usize) -> Vec<(usize, &Solid<'a>)> {
        let y = y as f32;
        let here = |solid: &Solid| solid.rows.0 <= y + 1.0 && y <= solid.rows.1;
        self.solids.iter().enumerate().filter(|(_, solid)| here(solid)).collect()
    }

    /// What is seen at a point of the picture.
    fn look(&self, near: &[(usize, &Solid)], x: f32, y: f32) -> Seen {
        let [right, up, ahead] = self.axes;
        let towards = along(along(ahead, x - self.centre.0, right), self.centre.1 - y, up);
        let towards = unit(towards);
        let hits = near.iter().filter(|(_, s)| s.columns.0 <= x && x <= s.columns.1);
        let hits = hits.filter_map(|&(i, solid)| Some((i, solid, solid.hit(self.eye, towards)?)));
        if let Some((i, solid, (t, normal))) = hits.min_by(|a, b| a.2.0.total_cmp(&b.2.0)) {
            let point = along(along(self.eye, t, towards), 1e-3, normal);
            let light = match self.is_shaded(point) {
                true => 0.0,
                false => dot(normal, SUN).max(0.0),
            };
            let mirrored = along(SUN, -2.0 * dot(normal, SUN), normal);
            let shine = if light > 0.0 { dot(mirrored, towards).max(0.0).powi(24) } else { 0.0 };
            let colour = solid.colour.map(|c| c * (0.45 + 0.6 * light) + 0.25 * shine);
            return Seen { colour, what: 8 + i };
        }
        match self.floor {
            Some(floor) if towards[2] < 0.0 => {
                self.floor(towards, (floor - self.eye[2]) / towards[2])
            }
            _ => Seen { colour: SKY, what: 0 },
        }
    }

    /// What is seen of the floor at a distance.
    fn floor(&self, towards: Vec3, distance: f32) -> Seen {
        let fade = ((distance - FADE.0) / (FADE.1 - FADE.0)).clamp(0.0, 1.0);
        if fade == 1.0 {
            return Seen { colour: SKY, what: 0 };
        }
        let fade = fade * fade * (3.0 - 2.0 * fade);
        let point = along(self.eye, distance, towards);
        // Rounded down; `floor` is slow on plain x86-64.
        let whole = |x: f32| x as i32 - i32::from(x < 0.0);
        let tile = ((whole(point[0]) + whole(point[1])) & 1) as usize;
        let inside = |((from, to), x): (&(f32, f32), f32)| *from <= x && x <= *to;
        let shaded = self.shaded.iter().zip(point).all(inside) && self.is_shaded(point);
        let light = (0.45 + 0.6 * SUN[2]) * if shaded { 1.0 - SHADOW } else { 1.0 };
        let colour = TILES[tile].map(|c| c * light * (1.0 - fade));
        Seen { colour: along(colour, fade, SKY), what: 1 + tile + 2 * usize::from(shaded) }
    }

    fn is_shaded(&self, point: Vec3) -> bool {
        self.solids.iter().any(|solid| solid.hit(point, SUN).is_some())
    }
}

/// The middle of what moves, or where nothing does of all.
fn middle(solids: &[Solid]) -> Vec3 {
    let moving = solids.iter().any(|solid| solid.moves);
    let places = || solids.iter().filter(|s| s.moves || !moving).map(|s| s.place);
    let sum = places().fold([0.0; 3], |sum, place| along(sum, 1.0, place));
    sum.map(|x| x / places().count().max(1) as f32)
}

/// A shape where it stands.
struct Solid<'a> {
    form: Form<'a>,
    colour: Vec3,
    moves: bool,
    place: Vec3,
    /// The directions of its own axes.
    axes: [Vec3; 3],
    /// No part of it is farther from its place.
    reach: f32,
    /// Where in the picture it may be seen, in pixels.
    columns: (f32, f32),
    rows: (f32, f32),
}

enum Form<'a> {
    /// A sphere, stretched by half sizes.
    Ball(Vec3),
    Box(Vec3),
    /// About z, of a radius and a half length, with round ends or flat ones.
    Tube(f32, f32, bool),
    Mesh(&'a Triangles),
}

impl<'a> Solid<'a> {
    fn new(shape: &Shape, meshes: &'a [Triangles], pose: &[f32; 12]) -> Option<Self> {
        let size = shape.size.map(|x| x as f32);
        let [a, b, c] = size;
        let (form, reach) = match shape.kind {
            "sphere" => (Form::Ball([a; 3]), a),
            "ellipsoid" => (Form::Ball(size), a.max(b).max(c)),
            "box" => (Form::Box(size), dot(size, size).sqrt()),
            "capsule" => (Form::Tube(a, b, true), a + b),
            "cylinder" => (Form::Tube(a, b, false), a.hypot(b)),
            _ => {
                let mesh = meshes.get(shape.mesh?)?;
                (Form::Mesh(mesh), mesh.reach())
            }
        };
        let axis = |i: usize| [pose[3 + i], pose[6 + i], pose[9 + i]];
        let [red, green, blue, _] = shape.colour;
        Some(Self {
            form,
            colour: [red, green, blue],
            moves: shape.moves,
            place: [pose[0], pose[1], pose[2]],
            axes: [axis(0), axis(1), axis(2)],
            reach,
            columns: (0.0, 0.0),
            rows: (0.0, 0.0),
        })
    }

    /// Where a ray of direction `towards`, of length 1, enters from outside: how far away, and the
    /// direction of the surface.
    fn hit(&self, from: Vec3, towards: Vec3) -> Option<(f32, Vec3)> {
        // From the point nearest to the middle of the solid: small numbers keep their digits.
        let from = minus(from, self.place);
        let start = -dot(from, towards);
        let from = along(from, start, towards);
        if dot(from, from) > self.reach * self.reach || start + self.reach < 0.0 {
            return None;
        }
        let [o, d] = [from, towards].map(|v| self.axes.map(|axis| dot(v, axis)));
        let (t, normal) = match self.form {
            Form::Ball(size) => ball(o, d, size)?,
            Form::Box(size) => cuboid(o, d, size)?,
            Form::Tube(radius, half, round) => tube(o, d, radius, half, round)?,
            Form::Mesh(mesh) => mesh.hit(o, d, -start)?,
        };
        let [x, y, z] = normal;
        let [a, b, c] = self.axes;
        let normal = along(along(a.map(|v| v * x), y, b), z, c);
        (start + t > 0.0).then_some((start + t, unit(normal)))
    }
}

/// The lesser root of at² + 2bt + c = 0.
fn root(a: f32, b: f32, c: f32) -> Option<f32> {
    let square = b * b - a * c;
    (square >= 0.0).then(|| (-b - square.sqrt()) / a)
}

fn ball(o: Vec3, d: Vec3, size: Vec3) -> Option<(f32, Vec3)> {
    let shrink = |v: Vec3| [v[0] / size[0], v[1] / size[1], v[2] / size[2]];
    let (so, sd) = (shrink(o), shrink(d));
    let t = root(dot(sd, sd), dot(so, sd), dot(so, so) - 1.0)?;
    Some((t, shrink(along(so, t, sd))))
}

fn cuboid(o: Vec3, d: Vec3, size: Vec3) -> Option<(f32, Vec3)> {
    let (mut enter, mut leave, mut normal) = (f32::NEG_INFINITY, f32::INFINITY, [0.0; 3]);
    for axis in 0..3 {
        if d[axis] == 0.0 {
            match o[axis].abs() <= size[axis] {
                true => continue,
                false => return None,
            }
        }
        let (at, side) = (o[axis] / d[axis], (size[axis] / d[axis]).abs());
        if -at - side > enter {
            enter = -at - side;
            normal = [0.0; 3];
            normal[axis] = -d[axis].signum();
        }
        leave = leave.min(side - at);
    }
    (enter <= leave).then_some((enter, normal))
}

fn tube(o: Vec3, d: Vec3, radius: f32, half: f32, round: bool) -> Option<(f32, Vec3)> {
    let a = d[0] * d[0] + d[1] * d[1];
    let c = o[0] * o[0] + o[1] * o[1] - radius * radius;
    let side = match a > 1e-9 {
        true => root(a, o[0] * d[0] + o[1] * d[1], c)?,
        // Along the tube: through an end, or past it.
        false if c <= 0.0 => f32::NEG_INFINITY,
        false => return None,
    };
    let height = o[2] + side * d[2];
    if height.abs() <= half {
        return Some((side, [o[0] + side * d[0], o[1] + side * d[1], 0.0]));
    }
    let end = half * height.signum();
    if round {
        let o = [o[0], o[1], o[2] - end];
        return ball(o, d, [radius; 3]);
    }
    let t = (end - o[2]) / d[2];
    let (x, y) = (o[0] + t * d[0], o[1] + t * d[1]);
    (t >= side && x * x + y * y <= radius * radius).then_some((t, [0.0, 0.0, height.signum()]))
}

fn dot(a: Vec3, b: Vec3) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn minus(a: Vec3, b: Vec3) -> Vec3 {
    along(a, -1.0, b)
}

/// a + t b
fn along(a: Vec3, t: f32, b: Vec3) -> Vec3 {
    [a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]]
}

fn unit(a: Vec3) -> Vec3 {
    let length = dot(a, a).sqrt();
    a.map(|x| x / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shape whose own z points along x.
    fn lying(kind: &'static str, size: [f64; 3], place: Vec3) -> (Shape, [f32; 12]) {
        let [x, y, z] = place;
        let pose = [x, y, z, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0];
        (Shape { kind, size, colour: [1.0, 0.0, 0.0, 1.0], moves: true, mesh: None }, pose)
    }

    #[test]
    fn rays_hit_where_they_should() {
        let (x, y, z) = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]);
        let minus = |v: Vec3| v.map(|x| -x);
        for (kind, size, from, towards, expected) in [
            // Against the side, the end, past it; all from a metre off or two.
            ("sphere", [0.5, 0.0, 0.0], [-2.0, 0.0, 0.0], x, Some((1.5, minus(x)))),
            ("sphere", [0.5, 0.0, 0.0], [-2.0, 0.0, 0.0], minus(x), None),
            ("sphere", [0.5, 0.0, 0.0], [-2.0, 0.51, 0.0], x, None),
            ("ellipsoid", [0.1, 0.2, 0.6], [0.0, 0.0, 2.0], minus(z), Some((1.9, z))),
            ("ellipsoid", [0.1, 0.2, 0.6], [2.0, 0.0, 0.0], minus(x), Some((1.4, x))),
            ("box", [0.1, 0.2, 0.6], [2.0, 0.1, 0.05], minus(x), Some((1.4, x))),
            ("box", [0.1, 0.2, 0.6], [0.5, -2.0, 0.05], y, Some((1.8, minus(y)))),
            ("box", [0.1, 0.2, 0.6], [0.5, -2.0, 0.11], y, None),
            ("capsule", [0.1, 0.5, 0.0], [0.4, 0.0, 1.0], minus(z), Some((0.9, z))),
            ("capsule", [0.1, 0.5, 0.0], [2.0, 0.0, 0.0], minus(x), Some((1.4, x))),
            ("capsule", [0.1, 0.5, 0.0], [0.59, 0.09, 1.0], minus(z), None),
            ("cylinder", [0.1, 0.5, 0.0], [0.4, 0.0, 1.0], minus(z), Some((0.9, z))),
            ("cylinder", [0.1, 0.5, 0.0], [2.0, 0.05, 0.05], minus(x), Some((1.5, x))),
            ("cylinder", [0.1, 0.5, 0.0], [0.51, 0.0, 1.0], minus(z), None),
        ] {
            let (shape, pose) = lying(kind, size, [0.0; 3]);
            let hit = Solid::new(&shape, &[], &pose).unwrap().hit(from, towards);
            let near = |a: Vec3, b: Vec3| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
            let same = match (hit, expected) {
                (Some((t, n)), Some((u, m))) => (t - u).abs() < 1e-4 && near(n, m),
                (hit, expected) => hit.is_none() && expected.is_none(),
            };
            assert!(same, "{kind} from {from:?} towards {towards:?}: {hit:?}, not {expected:?}");
        }
    }

    #[test]
    fn a_robot_stands_in_the_middle_of_the_picture_with_a_shadow_however_far_it_ran() {
        for x in [0.0, 1000.0] {
            let (ball, pose) = lying("sphere", [0.2, 0.0, 0.0], [x, 0.0, 0.6]);
            let (plane, ground) = lying("plane", [1.0; 3], [0.0; 3]);
            let (width, height) = (160, 120);
            let pixels =
                picture(&[plane, ball], &[], &[ground, pose], View::USUAL, (width, height));
            let at = |x: usize, y: usize| &pixels[3 * (y * width + x)..][..3];
            let [red, green, blue] = at(80, 60) else { panic!() };
            assert!(*red > 100 && *green < 100 && *blue < 100, "{:?}", at(80, 60));
            assert_eq!(at(80, 2), [230, 237, 245], "the sky");
            let floor = |pixel: &[u8]| pixel[2] > pixel[0];
            let dark = pixels.as_chunks::<3>().0.iter().filter(|p| floor(*p) && p[0] < 80).count();
            assert!((20..500).contains(&dark), "{dark} pixels in the shadow");
        }
    }
}
